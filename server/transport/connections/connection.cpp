#include "server/transport/connections/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "protocol/decode.h"

namespace pulsegate {

namespace {

/// A connection may use this much of its rate at once. Above that it pauses, because a timer for
/// each packet would cost too much.
constexpr Millis burst = 1000;
constexpr Millis pause = 50;

/// The time in ns for which a connection is not read, for each unit of work that it caused.
constexpr std::int64_t work_time = 100;

/// How often TLS is read in one round, in records of at most 16 KB. Without TLS there is one read.
constexpr int reads_of_tls_a_turn = 4;

/// The cost of a TLS record without data, usually a key update.
constexpr std::uint64_t record_work = 100;

/// True for packets that may cause much work. Only these must wait when other packets have caused
/// much work.
bool may_be_much_work(Bytes packet) {
    const auto type = static_cast<PacketType>(packet[0] >> 4);
    return type == PacketType::publish || type == PacketType::subscribe ||
           type == PacketType::unsubscribe;
}

/// True for packets with an answer that may wait for the store.
bool is_answered_late(Bytes packet) {
    const auto type = static_cast<PacketType>(packet[0] >> 4);
    return type == PacketType::pubrec || type == PacketType::pubrel || may_be_much_work(packet);
}

/// The unused bytes that the buffer of an unfinished packet may have, besides half of the buffer.
constexpr std::size_t spare_room = 1024;

constexpr std::string_view pingreq("\xC0\x00", 2);
constexpr std::string_view pingresp("\xD0\x00", 2);

}  // namespace

Connection::Connection(ConnectionContext& context) : context_(context) {}

Connection::~Connection() = default;

bool Connection::handshaking() const { return extras_ && extras_->is_handshaking(); }
bool Connection::websocket() const { return extras_ && extras_->websocket; }
TlsSession* Connection::tls() const { return extras_ ? extras_->tls.get() : nullptr; }
Channel* Connection::channel() const { return extras_ ? extras_->channel.get() : nullptr; }
SmallTls* Connection::small_tls() const { return extras_ ? extras_->small.get() : nullptr; }

bool Connection::take(Handoff& handoff) {
    const bool has_channel = handoff.extras && handoff.extras->channel;
    if (has_channel)
        handoff.extras->channel->watch(*this);
    else if (!context_.rounds.poller().add(handoff.socket.get(), *this))
        return false;
    socket_ = std::move(handoff.socket);
    extras_ = std::move(handoff.extras);
    origin_ = handoff.origin;
    version_ = handoff.version;
    // The poller does not report bytes that TLS has already taken from the socket.
    unread_ = tls() || (small_tls() && small_tls()->has_more());
    if (small_tls()) count_record(small_tls()->kept());
    if (!handoff.unread.empty())
        keep_unfinished(std::make_unique<Buffer>(std::move(handoff.unread)));
    intrusive_ptr_add_ref(this);  // its own reference, until `close`
    ++context_.connections;
    ++context_.connections_by_listener[origin_.listener];
    last_packet_ = monotonic_now();
    context_.wheel.schedule(*this, tick_after(last_packet_ + context_.settings.login_timeout));
    if (!handoff.unsent.empty()) {
        outgoing().append(handoff.unsent);
        sent_something();
    }
    return true;
}

// -- reading --

void Connection::on_ready(Readiness ready) {
    const boost::intrusive_ptr alive(this);
    if (channel()) count_channel();
    if (ready.more_behind) drains_ = true;
    if (ready.writable && writing_ && context_.rest != Rest::all) go_on_writing();
    if (!ready.readable) return;
    unread_ = true;
    if (!may_read()) return;
    if (state_ == State::login) return read_on();
    read();
}

/// While the connection waits for something else, its input waits too.
bool Connection::may_read() const {
    if (state_ == State::closed || state_ == State::lost || listening_) return false;
    return !reads() || !(queued_ || parked_ || context_.rest != Rest::none);
}

void Connection::read() {
    for (int reads = 0; receive() && tls() && ++reads < reads_of_tls_a_turn;) continue;
    settle();
    read_on();
}

/// Asks for a turn if there is more to read, because the poller reports only new input.
void Connection::read_on() {
    if (parked_ && reads() && !queued_) {
        const Millis paid = paid_until_ / 1'000'000 - burst + pause;
        return context_.parked.add(
            *this,
            unanswered_ ? std::max(paid, monotonic_now() + context_.owner.answer_pause()) : paid);
    }
    if (!unread_ || !may_read()) return;
    listening_ = true;
    ++awaited_turns_;
    (state_ == State::login ? context_.unauthenticated : context_.unread).add(*this);
}

bool Connection::read_pending() {
    --awaited_turns_;
    const bool there = reads();
    listening_ = false;
    if (may_read()) read();
    return there;
}

/// Handles the input that was left because the shard had too much to do.
void Connection::resume() {
    parked_ = false;
    // Handling the unread input may take an hour at this rate, so a reset connection ends without
    // it.
    if ((slowed_ || unanswered_) && reset_by_peer())
        end({Cause::connection_lost, Reason::success, "reset by the peer"});
    // A client that was taken over or disconnected meanwhile is no longer served.
    if (reads()) consume({}, monotonic_now());
    end_websocket();
    settle();
    read_on();
}

/// Reads once. A full buffer leaves the rest to the next turn, so no client blocks the shard. True
/// if there may be more.
bool Connection::receive() {
    if (queued_ && reads()) return false;  // its input is handled later
    if (handshaking() && reads()) {
        proceed_handshake(false);
        return false;
    }
    auto& buffer = context_.input.buffer();
    std::size_t kept = 0;
    if (websocket()) {
        const auto& rest = extras_->websocket->rest;
        std::copy(rest.begin(), rest.end(), buffer.begin());
        kept = rest.size();
    }
    const auto room = buffer.size() - kept;
    fetch_neighbours();  // while the kernel reads; a packet will move the connection on the wheel
    const auto size = read_socket(buffer.data() + kept, room);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        unread_ = errno == EINTR;
        // The answer to a key update must be written first. Then the poller reports the rest again.
        if (tls() && state_ != State::lingering && tls()->wants_to_write()) wait_writable();
        if (unread_) charge_for_records(monotonic_now());
        return unread_ && reads() && !parked_;
    }
    // If a socket returns fewer bytes than requested, it has no more. OpenSSL's reads always end
    // with a record, so they show nothing.
    const bool is_full = static_cast<std::size_t>(size) == room;
    const bool is_opened = small_tls() && state_ != State::lingering;
    unread_ = (is_opened ? small_tls()->has_more() : is_full || tls()) || drains_;
    if (state_ == State::lingering && size <= 0) close();
    if (!reads()) return false;
    if (size <= 0) {
        end_unreadable(size);
        return false;
    }
    context_.counters.bytes_in += static_cast<std::uint64_t>(size);
    // The clock is read after the bytes. If it were read before and the thread was delayed in
    // between, the bytes would count as older than they are, and the deadline would come early.
    const Millis now = monotonic_now();
    const auto filled = kept + static_cast<std::size_t>(size);
    if (websocket())
        read_frames({buffer.data(), filled}, now);
    else
        consume(Bytes(buffer.data(), filled), now);
    charge_for_records(now);
    return unread_ && reads() && !parked_;
}

/// Reads from the socket. Input after the end is read without TLS and without the handshake,
/// because it is discarded.
ssize_t Connection::read_socket(std::uint8_t* to, std::size_t room) {
    if (state_ == State::lingering) return receive_now(socket_.get(), nullptr, to, room);
    const auto size = receive_now(socket_.get(), extras_.get(), to, room);
    if (channel()) count_channel();
    if (!small_tls() || small_tls()->kept() == extras_->counted_record) return size;
    const int error = errno;
    const bool grows = small_tls()->kept() > extras_->counted_record;
    count_record(small_tls()->kept());
    if (grows && reads()) judge_unfinished();
    errno = error;
    return size;
}

void Connection::end_unreadable(ssize_t size) {
    if (channel()) return end(channel()->ending());
    if ((tls() && tls()->is_flooded()) || (small_tls() && small_tls()->is_flooded()))
        return end({Cause::kicked, Reason::protocol_error,
                    "TLS records without data, such as updates of keys, one after the other"});
    end({Cause::connection_lost, Reason::success,
         size == 0             ? "the peer closed without DISCONNECT"
         : errno == ECONNRESET ? "reset by the peer"
                               : "read error"});
}

/// Takes the packets out of their WebSocket frames, in place.
void Connection::read_frames(std::span<std::uint8_t> input, Millis now) {
    WebSocketState& state = *extras_->websocket;
    std::uint8_t* const front = input.data();
    const std::size_t size = input.size();
    std::size_t payload = 0;
    Unframed frames;
    do {
        frames = state.unframer.next(input, front + payload, UINT32_MAX);
        payload += frames.payload;
        input = input.subspan(frames.consumed);
        if (frames.event == Unframed::Event::ping) send_pong(frames.body);
    } while (frames.event == Unframed::Event::ping || frames.event == Unframed::Event::pong);
    const bool ends = frames.event != Unframed::Event::none;
    state.rest.assign(input.begin(), ends ? input.begin() : input.end());
    if (ends) {
        const bool bad = frames.event == Unframed::Event::bad;
        state.end = WebSocketEnd{frames.code, bad ? frames.cause : nullptr};
    }
    if (payload > 0) consume(Bytes(front, payload), now);
    if (!ends) pay_for_framing(size - input.size() - payload, now);
    end_websocket();
}

/// Headers of frames, pings and pongs count against the rate of bytes, as packets do. But they are
/// no sign of life: a client that was silent for too long is not parked, but read until it is due.
void Connection::pay_for_framing(std::size_t bytes, Millis now) {
    if (state_ != State::open || tick_after(last_packet_ + limit_) <= context_.wheel.now()) return;
    const double time = static_cast<double>(bytes) * context_.settings.byte_time;
    if (time > 0 && pay(time, Limit::max_byte_rate, now)) parked_ = true;
}

/// Ends the connection when its WebSocket has ended, after all earlier packets. An earlier
/// DISCONNECT must count. So the end waits while packets wait, or while the CONNECT moves the
/// connection to another shard.
void Connection::end_websocket() {
    if (!reads() || queued_ || parked_ || !websocket() || !extras_->websocket->end) return;
    const auto [code, fault] = *extras_->websocket->end;
    append_close(outgoing(), code);
    extras_->websocket->close_sent = true;
    if (fault) ++context_.counters.bad_packets;
    end({fault ? Cause::kicked : Cause::connection_lost, Reason::success,
         fault ? fault : "the peer closed the WebSocket without DISCONNECT"});
}

void Connection::consume(Bytes input, Millis now) {
    // Moved out of the connection, because a packet in it may end or move the connection.
    auto partial = take_unfinished();
    if (partial) {
        partial->append(as_text(input));
        input = as_bytes(*partial);
    }

    context_.input.begin(*this);
    const bool finishes = context_.rest == Rest::reading && has_ended();
    bool alive = false;
    while (!input.empty() && !parked_) {
        const Frame frame = next_frame(input, context_.settings.max_packet_size, version_);
        if (frame.status == Frame::Status::incomplete) break;
        if (frame.status == Frame::Status::bad) {
            refuse_packet(input, frame.error.reason, frame.error.cause);
            break;
        }
        const Bytes packet = input.first(frame.size);
        if (context_.rest != Rest::none && !finishes) {
            parked_ = true;
            break;
        }
        // Each forwarded packet takes room at the home, whatever its type.
        unanswered_ =
            (forwards_ || is_answered_late(packet)) && context_.owner.awaits_answers(*this);
        if (unanswered_ || (may_be_much_work(packet) && context_.input.must_wait())) {
            parked_ = true;
            break;
        }
        context_.input.rest = input.subspan(frame.size);
        const bool goes_on = handle(packet, now);
        if (!goes_on && !queued_) break;
        input = input.subspan(frame.size);
        if (queued_) break;  // the rest is handled later
        alive = true;
        parked_ = too_fast(packet, now) && !finishes;
    }
    const auto work = context_.input.end();
    if (!reads()) return;
    charge(work, now);

    if (!input.empty()) {
        if (partial)
            partial->erase(0, partial->size() - input.size());
        else
            partial = std::make_unique<Buffer>(as_text(input));
        if (partial->capacity() > 2 * partial->size() + spare_room) partial->shrink_to_fit();
        keep_unfinished(std::move(partial));
        if (!parked_) judge_unfinished();
    }
    // Only complete packets are a sign of life. Otherwise a client that sends one byte a second
    // could stay for ever.
    if (alive) context_.wheel.schedule(*this, due_at(now));
}

/// Each packet uses time, by the rate of messages or of bytes, whichever is longer. The packets of
/// a second may come at once. Acknowledgements don't count as messages, because a client must send
/// one for each message that it receives.
bool Connection::too_fast(Bytes packet, Millis now) {
    const auto& settings = context_.settings;
    const auto type = static_cast<PacketType>(packet[0] >> 4);
    const bool acknowledges = type >= PacketType::puback && type <= PacketType::pubcomp;
    const double as_message = acknowledges ? 0 : settings.message_time;
    const double as_bytes = static_cast<double>(packet.size()) * settings.byte_time;
    return pay(std::max(as_message, as_bytes),
               as_message >= as_bytes ? Limit::max_message_rate : Limit::max_byte_rate, now);
}

/// Counts this many ns as used. Returns true if the connection has used more than may come at once.
bool Connection::pay(double time, Limit limit, Millis now) {
    const std::int64_t moment = now * 1'000'000;
    paid_until_ = std::max(paid_until_, moment) + static_cast<std::int64_t>(time);
    if (paid_until_ - moment <= burst * 1'000'000) return false;
    context_.counters.count(limit);
    if (slowed_) return true;
    slowed_ = true;
    context_.owner.on_slowed(*this);
    return true;
}

/// A connection that has caused much work is not read for a while. Meanwhile other connections are
/// served, and two connections that cause much work get equal shares.
void Connection::charge(std::uint64_t work, Millis now) {
    if (work >= work_a_turn / 4) pause_for(work, now);
}

/// Charges for TLS records without data. Before its login, a connection has few turns anyway.
void Connection::charge_for_records(Millis now) {
    const auto without_data = small_tls() ? small_tls()->taken_without_data()
                              : tls()     ? tls()->taken_without_data()
                                          : 0;
    if (without_data == 0 || state_ != State::open) return;
    const auto work = without_data * record_work;
    context_.turn.add(work);
    pause_for(work, now);
}

void Connection::pause_for(std::uint64_t work, Millis now) {
    const auto time = static_cast<std::int64_t>(work) * work_time;
    paid_until_ = std::max(paid_until_, (now + burst - pause) * 1'000'000) + time;
    parked_ = true;
}

/// Returns false when the connection takes no more packets.
bool Connection::handle(Bytes packet, Millis now) {
    if (context_.tracer.is_on()) [[unlikely]]
        context_.owner.on_traced(*this, packet, version_, Sender::client);
    if (state_ == State::login) return handle_connect(packet, now);
    if (state_ == State::open && as_text(packet) == pingreq) {
        answer_ping(now);
        return state_ == State::open;
    }
    if (forwards_) {
        last_packet_ = now;
        context_.owner.on_forwarded(*this, packet);
        return state_ == State::open;
    }
    // Checked before decoding, because a fault in this packet may have a reason code that only a
    // CONNACK can have.
    if (static_cast<PacketType>(packet[0] >> 4) == PacketType::connect) {
        refuse_packet(packet, Reason::protocol_error, "a second CONNECT");
        return false;
    }
    const Decoded decoded = decode(packet, version_, Sender::client);
    if (const auto* error = std::get_if<DecodeError>(&decoded)) {
        refuse_packet(packet, error->reason, error->cause);
        return false;
    }
    last_packet_ = now;
    context_.counters.count_in(static_cast<PacketType>(packet[0] >> 4));
    context_.owner.on_packet(*this, std::get<Packet>(decoded), now);
    return state_ == State::open;
}

/// Copies the bytes before they are decoded, because the owner may keep them for some time.
bool Connection::handle_connect(Bytes packet, Millis now) {
    ReceivedConnect received{{packet.begin(), packet.end()}, {}};
    const Decoded decoded = decode(received.bytes, version_, Sender::client);
    if (const auto* error = std::get_if<DecodeError>(&decoded)) {
        refuse_packet(packet, error->reason, error->cause);
        return false;
    }
    const auto* connect = std::get_if<Connect>(&std::get<Packet>(decoded));
    if (!connect) {
        refuse_packet(packet, Reason::protocol_error, "the first packet is not CONNECT");
        return false;
    }
    received.connect = *connect;
    version_ = connect->version;
    last_packet_ = now;
    context_.counters.count_in(PacketType::connect);
    context_.owner.on_connect(*this, std::move(received), now);
    if (state_ == State::login && !queued_) open();
    return state_ == State::open;
}

/// A ping only shows that the client lives, so no other object is told. With many clients, each
/// object that a ping touches is a cache miss.
void Connection::answer_ping(Millis now) {
    last_packet_ = now;
    context_.counters.count_in(PacketType::pingreq);
    context_.counters.count_out(PacketType::pingresp);
    send(pingresp);
}

}  // namespace pulsegate
