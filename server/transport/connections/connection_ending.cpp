// The end of a connection: its session is told, the peer is told the reason, and the socket is
// closed.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <utility>

#include "protocol/encode.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// The time for a disconnected peer to read the reason.
constexpr Millis linger = 2000;

CloseCode close_code(Cause cause) {
    switch (cause) {
        case Cause::shutdown:
        case Cause::drained: return CloseCode::going_away;
        case Cause::kicked:
        case Cause::taken_over: return CloseCode::policy_violation;
        default: return CloseCode::normal;
    }
}

/// True if the client has sent a packet that no client may send.
bool is_for_a_bad_packet(Reason reason) {
    switch (reason) {
        case Reason::malformed_packet:
        case Reason::protocol_error:
        case Reason::unsupported_protocol_version:
        case Reason::client_identifier_not_valid:
        case Reason::topic_filter_invalid:
        case Reason::topic_name_invalid:
        case Reason::receive_maximum_exceeded:
        case Reason::topic_alias_invalid:
        case Reason::retain_not_supported:
        case Reason::qos_not_supported: return true;
        default: return false;
    }
}

}  // namespace

void Connection::end(const Ending& ending) {
    if (!reads()) return;
    if (ending.cause == Cause::kicked && is_for_a_bad_packet(ending.reason))
        ++context_.counters.bad_packets;
    // A DISCONNECT must not come before the CONNACK (MQTT 5.0, 3.14).
    const bool told = state_ == State::open || context_.owner.is_accepted(*this);
    ending_ = ending;
    if (!told) ending_.reason = Reason::success;
    if (ending.cause == Cause::connection_lost) {
        state_ = State::lost;
        ++awaited_turns_;
        return context_.lost.add(*this);
    }
    state_ = State::ending;
    mark_dirty();
}

void Connection::say_end(const Ending& ending) {
    if (!reads() || handshaking()) return;
    ending_ = ending;
    if (state_ != State::open && !context_.owner.is_accepted(*this))
        ending_.reason = Reason::success;
    send_reason();
    ::shutdown(socket_.get(), SHUT_WR);
    // The process does not linger, and a socket that is closed with unread input resets the
    // connection.
    constexpr int most_reads = 8;
    std::array<std::uint8_t, 16 * 1024> unread;
    for (int reads = 0; reads < most_reads; ++reads)
        if (::recv(socket_.get(), unread.data(), unread.size(), 0) <= 0) return;
}

/// Ends the connection in its turn, unless another connection has taken it over meanwhile.
bool Connection::teardown() {
    --awaited_turns_;
    if (state_ != State::lost) return false;
    state_ = State::ending;
    settle();
    return true;
}

void Connection::shut_down(const Ending& ending) {
    if (state_ == State::lingering) return close();
    end(ending);
}

void Connection::end_turn() {
    dirty_ = false;
    settle();
}

/// Writes all output, and ends the connection if it must end.
void Connection::settle() {
    if (state_ == State::closed || state_ == State::lost) return;
    if (!writing_) flush();
    count_backlog();
    if (state_ == State::ending) return finish();
    const bool rests = context_.rest != Rest::none;
    if (backlog() != 0 || state_ != State::open || !notify_drained_ || rests) return;
    notify_drained_ = false;
    context_.owner.on_drained(*this);
}

void Connection::finish() {
    const boost::intrusive_ptr alive(this);
    Wheel::cancel(*this);
    context_.owner.on_end(*this, ending_, monotonic_now());
    send_disconnect();
    read_on();
}

/// Sends the DISCONNECT, and the end of the WebSocket and of TLS.
void Connection::send_reason() {
    Buffer last_bytes;
    if (backlog() == 0 && version_ == Version::v5_0 && ending_.reason != Reason::success) {
        PropertyList words;
        words.add(Property::reason_string, ending_.why);
        const std::string& reference = context_.settings.server_reference;
        if (ending_.reason == Reason::use_another_server && !reference.empty())
            words.add(Property::server_reference, reference);
        Buffer packet;
        encode(Disconnect{.reason = ending_.reason, .properties = words.view()}, version_, packet);
        if (largest_packet_ != 0 && packet.size() > largest_packet_) {
            packet.clear();
            encode(Disconnect{.reason = ending_.reason}, version_, packet);
        }
        context_.counters.count_out(PacketType::disconnect);
        if (context_.tracer.is_on()) trace_sent(packet);
        if (websocket())
            last_bytes.append(as_text(frame_header(Opcode::binary, packet.size()).bytes()));
        last_bytes.append(packet);
    }
    if (backlog() == 0 && websocket() && !extras_->websocket->close_sent)
        append_close(last_bytes, close_code(ending_.cause));
    send_last(socket_.get(), extras_.get(), last_bytes);
}

void Connection::send_disconnect() {
    send_reason();
    // If a socket with unread input is closed, the kernel resets the connection, and a peer that
    // still sends may lose the DISCONNECT. So such a socket stays open for a moment. If output
    // waits, the peer does not read and loses it anyway.
    const bool may_send = ending_.cause == Cause::kicked || ending_.cause == Cause::taken_over ||
                          ending_.cause == Cause::shutdown || ending_.cause == Cause::drained ||
                          websocket();
    if (!may_send || backlog() > 0 || channel()) return close();
    ::shutdown(socket_.get(), SHUT_WR);
    state_ = State::lingering;
    context_.wheel.schedule(*this, tick_after(monotonic_now() + linger));
}

void Connection::close() {
    if (state_ == State::closed) return;
    state_ = State::closed;
    context_.tracer.forget(*this);
    Wheel::cancel(*this);
    if (extras_) count_record(0);
    if (channel()) {
        --context_.elsewhere;
        channel()->end(ending_.cause);
    }
    extras_.reset();
    if (socket_) {  // null if it was released
        context_.counts.closed(origin_.address);
        context_.rounds.poller().close(std::move(socket_), *this);
    }
    take_unfinished();
    out_.reset();
    count_backlog();
    --context_.connections;
    --context_.connections_by_listener[origin_.listener];
    intrusive_ptr_release(this);
}

}  // namespace pulsegate
