#include "server/transport/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "protocol/decode.h"
#include "protocol/encode.h"
#include "server/log.h"

namespace pulsegate {

namespace {

/// How long a peer that was thrown out may take to read why.
constexpr Millis linger = 2000;

/// A backlog of this size is offered to the socket at once instead of at the end of the turn.
constexpr std::size_t flush_early = 64 * 1024;

constexpr std::string_view pingreq("\xC0\x00", 2);
constexpr std::string_view pingresp("\xD0\x00", 2);

}  // namespace

Connection::Connection(Transport& transport, int socket)
    : transport_(transport), socket_(transport.io_) {
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size);
    const auto protocol =
        local.ss_family == AF_INET6 ? boost::asio::ip::tcp::v6() : boost::asio::ip::tcp::v4();
    socket_.assign(protocol, socket);
}

void Connection::start(std::string_view unread) {
    intrusive_ptr_add_ref(this);  // the transport's, until close
    ++transport_.connections_;
    last_packet_ = monotonic_now();
    transport_.wheel_.schedule(*this,
                               tick_after(last_packet_ + transport_.settings_.login_timeout));
    if (!unread.empty()) {
        transport_.current_ = this;
        consume(as_bytes(unread), last_packet_);
        transport_.current_ = nullptr;
        settle();
    }
    wait_readable();
}

Arrival Connection::release() {
    Arrival arrival{-1, std::string(as_text(transport_.unread_))};
    arrival.socket = socket_.release();
    close();
    return arrival;
}

// -- reading
// ----------------------------------------------------------------------------------------

void Connection::wait_readable() {
    if (state_ == State::closed) return;
    socket_.async_wait(Socket::wait_read,
                       [self = boost::intrusive_ptr(this)](boost::system::error_code error) {
                           if (error || self->state_ == State::closed) return;
                           self->receive(monotonic_now());
                           self->settle();
                           self->wait_readable();
                       });
}

/// Reads once; a full buffer leaves the rest to the next turn, so that nobody holds the shard.
void Connection::receive(Millis now) {
    auto& buffer = transport_.received_;
    const auto size = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (state_ == State::lingering && size <= 0) return close();
    if (!reads()) return;
    if (size == 0)
        return end({Cause::connection_lost, Reason::success, "the peer closed without DISCONNECT"});
    if (size < 0)
        return end({Cause::connection_lost, Reason::success,
                    errno == ECONNRESET ? "reset by the peer" : "read error"});

    transport_.counters_.bytes_in += static_cast<std::uint64_t>(size);
    transport_.current_ = this;
    consume(Bytes(buffer.data(), static_cast<std::size_t>(size)), now);
    transport_.current_ = nullptr;
}

void Connection::consume(Bytes input, Millis now) {
    // Moved out of the connection, because a packet in it may end or move the connection.
    auto partial = std::move(partial_);
    if (partial) {
        partial->append(as_text(input));
        input = as_bytes(*partial);
    }

    bool alive = false;
    while (!input.empty()) {
        const Frame frame = next_frame(input, transport_.settings_.max_packet_size);
        if (frame.status == Frame::Status::incomplete) break;
        if (frame.status == Frame::Status::bad)
            return refuse_packet(input, frame.error.reason, frame.error.cause);
        transport_.unread_ = input;
        if (!handle(input.first(frame.size), now)) return;
        input = input.subspan(frame.size);
        alive = true;
    }

    if (!input.empty()) {
        if (partial)
            partial->erase(0, partial->size() - input.size());
        else
            partial = std::make_unique<Buffer>(as_text(input));
        partial_ = std::move(partial);
    }
    // Complete packets count as life, the bytes of an unfinished one don't: who sends one byte a
    // second must not live for ever.
    if (alive) transport_.wheel_.schedule(*this, tick_after(now + limit_));
}

/// False when the connection takes no more packets.
bool Connection::handle(Bytes packet, Millis now) {
    if (state_ == State::open && as_text(packet) == pingreq) {
        answer_ping(now);
        return state_ == State::open;
    }
    const Decoded decoded = decode(packet, version_, Sender::client);
    if (const auto* error = std::get_if<DecodeError>(&decoded)) {
        refuse_packet(packet, error->reason, error->cause);
        return false;
    }
    const auto& value = std::get<Packet>(decoded);
    last_packet_ = now;
    if (state_ == State::login) {
        const auto* connect = std::get_if<Connect>(&value);
        if (!connect) {
            refuse_packet(packet, Reason::protocol_error, "the first packet is not CONNECT");
            return false;
        }
        version_ = connect->version;
        transport_.owner_.on_packet(*this, value, now);
        if (state_ == State::login) state_ = State::open;
    } else {
        transport_.owner_.on_packet(*this, value, now);
    }
    // A connection that moved to another shard is counted there.
    if (state_ != State::closed)
        transport_.counters_.count_in(static_cast<PacketType>(packet[0] >> 4));
    return state_ == State::open;
}

/// Says nothing but that the client lives, so no one else need hear of it: with many clients, each
/// object that a ping touches is a cache miss.
void Connection::answer_ping(Millis now) {
    last_packet_ = now;
    transport_.counters_.count_in(PacketType::pingreq);
    transport_.counters_.count_out(PacketType::pingresp);
    send(pingresp);
}

void Connection::refuse_packet(Bytes packet, Reason reason, const char* cause) {
    ++transport_.counters_.bad_packets;
    if (state_ == State::login && reason == Reason::unsupported_protocol_version) {
        // The level decides which CONNACK the client understands (MQTT 5.0, 3.1.2.2).
        Buffer refusal;
        encode(Connack{.reason = reason}, version_to_answer(packet), refusal);
        send(refusal);
    }
    end({Cause::kicked, reason, cause});
}

// -- sending
// ----------------------------------------------------------------------------------------

void Connection::send(std::string_view packets) {
    if (!reads()) return;
    if (!out_) {
        out_ = transport_.take_buffer();
        sent_ = 0;
    }
    out_->append(packets);
    transport_.mark_dirty(*this);
    // Only what the socket does not take counts against the budget.
    const auto early = std::min(flush_early, transport_.settings_.output_budget);
    if (backlog() > early && !writing_) flush();
    if (backlog() > transport_.settings_.output_budget) {
        ++transport_.counters_.slow_consumers;
        end({Cause::kicked, Reason::quota_exceeded, "slow consumer: output budget exceeded"});
    }
}

void Connection::tell_when_drained() {
    tell_drained_ = true;
    transport_.mark_dirty(*this);
}

void Connection::flush() {
    while (backlog() > 0) {
        const auto taken = ::send(socket_.native_handle(), out_->data() + sent_, backlog(),
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken < 0 && errno == EINTR) continue;
        if (taken < 0 && errno == EAGAIN) return wait_writable();
        if (taken < 0) {
            out_.reset();
            // What the peer sent before it went is still there to be read: its DISCONNECT, maybe.
            if (errno == EPIPE || errno == ECONNRESET) return;
            return end({Cause::connection_lost, Reason::success, "write error"});
        }
        transport_.counters_.bytes_out += static_cast<std::uint64_t>(taken);
        sent_ += static_cast<std::uint32_t>(taken);
    }
    if (out_) transport_.give_back(std::move(out_));
    if (std::exchange(tell_drained_, false) && state_ == State::open)
        transport_.owner_.on_drained(*this);
}

void Connection::wait_writable() {
    // What has been taken goes, but not at every write: that would move the rest each time.
    if (sent_ > out_->size() / 2) {
        out_->erase(0, sent_);
        sent_ = 0;
    }
    if (std::exchange(writing_, true)) return;
    socket_.async_wait(Socket::wait_write,
                       [self = boost::intrusive_ptr(this)](boost::system::error_code error) {
                           self->writing_ = false;
                           if (error || self->state_ == State::closed) return;
                           self->settle();
                       });
}

// -- ending
// -----------------------------------------------------------------------------------------

void Connection::end(const Ending& ending) {
    if (!reads()) return;
    // A connection that has not logged in has no version to send a DISCONNECT in.
    const bool told = state_ == State::open || session;
    state_ = State::ending;
    cause_ = ending.cause;
    reason_ = told ? ending.reason : Reason::success;
    why_ = ending.why;
    transport_.mark_dirty(*this);
}

/// Writes what there is to write, and ends what is to end.
void Connection::settle() {
    if (state_ == State::closed) return;
    if (!writing_) flush();
    if (state_ == State::ending) finish();
}

void Connection::finish() {
    const boost::intrusive_ptr alive(this);
    const Ending ending{cause_, reason_, why_};
    Wheel::cancel(*this);
    transport_.owner_.on_end(*this, ending, monotonic_now());
    say_goodbye(ending);
}

void Connection::say_goodbye(const Ending& ending) {
    if (backlog() == 0 && version_ == Version::v5_0 && ending.reason != Reason::success) {
        PropertyList properties;
        properties.add(Property::reason_string, ending.why);
        Buffer packet;
        encode(Disconnect{.reason = ending.reason, .properties = properties.view()}, version_,
               packet);
        transport_.counters_.count_out(PacketType::disconnect);
        ::send(socket_.native_handle(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    // Closing a socket with unread input resets it, and a peer that still sends may lose what it
    // was told. One that does not read loses it anyway.
    const bool may_send = ending.cause == Cause::kicked || ending.cause == Cause::taken_over;
    if (!may_send || backlog() > 0) return close();
    ::shutdown(socket_.native_handle(), SHUT_WR);
    state_ = State::lingering;
    transport_.wheel_.schedule(*this, tick_after(monotonic_now() + linger));
}

std::string Connection::peer() const {
    boost::system::error_code error;
    const auto endpoint = socket_.remote_endpoint(error);
    if (error) return "a peer that has gone";
    const bool v6 = endpoint.address().is_v6();
    return fmt::format("{}{}{}:{}", v6 ? "[" : "", endpoint.address().to_string(), v6 ? "]" : "",
                       endpoint.port());
}

void Connection::close() {
    if (state_ == State::closed) return;
    state_ = State::closed;
    Wheel::cancel(*this);
    if (socket_.is_open()) {  // not if it was released
        transport_.admission_.closed();
        boost::system::error_code ignored;
        socket_.close(ignored);
    }
    partial_.reset();
    out_.reset();
    --transport_.connections_;
    intrusive_ptr_release(this);
}

}  // namespace pulsegate
