// What a connection does when it is due on the wheel: it was silent for too long, or seems so.
#include <algorithm>

#include "protocol/decode.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// The maximum number of reads before a connection is given up. This empties a socket without a
/// whole packet. There must be a limit, because WebSocket pongs, or beginnings of packets under
/// TLS, may arrive as fast as they are read.
constexpr int most_looks = 256;

/// The grace for a connection whose login timeout passed while it waited for its turn.
constexpr Tick ticks_to_answer = 2;

/// How many login timeouts a connection may take in all, if it waits for its turn.
constexpr Millis graces = 4;

}  // namespace

/// Reads the socket before the connection is given up, because the loop may be late and the client
/// not silent.
void Connection::on_due() {
    const boost::intrusive_ptr alive(this);
    Wheel& wheel = context_.wheel;
    // A parked connection is not read, so its silence means nothing.
    if (parked_ && reads()) return wheel.schedule(*this, wheel.now() + 1);
    if (is_early() || await_edge()) return;
    // There is a limit to the grace, because a client that sends endlessly but no CONNECT always
    // waits for its next turn.
    const bool has_grace =
        (queued_ && handshaking()) ||
        monotonic_now() < last_packet_ + graces * context_.settings.login_timeout;
    const bool waited_for_us = awaited_turns_ > 0 && has_grace;
    for (int looks = 0; looks < most_looks; ++looks)
        if (!reads() || scheduled() || !receive()) break;
    settle();
    if (reads() && holds_packet()) {
        ++context_.counters.expiry_false_alarms;
        wheel.schedule(*this, wheel.now() + 1);
        return read_on();
    }
    if (scheduled()) {
        if (reads()) ++context_.counters.expiry_false_alarms;
        return read_on();
    }
    switch (state_) {
        case State::open:
            end({Cause::timeout, Reason::keep_alive_timeout, "silent too long"});
            return settle();  // at once, so that its work counts
        case State::login:
            if (waited_for_us) return wheel.schedule(*this, wheel.now() + ticks_to_answer);
            ++context_.counters.login_timeouts;
            return end({Cause::timeout, Reason::success, cause_of_login_timeout()});
        case State::lingering: return close();
        case State::lost:
        case State::ending:
        case State::closed: return;
    }
}

/// The time at which to check the silence that begins now: at the limit, or earlier for a WebSocket
/// ping.
Tick Connection::due_at(Millis now) const {
    const Tick end = tick_after(now + limit_);
    const Millis ping = context_.settings.websocket_ping;
    return ping != 0 && websocket() ? std::min(end, tick_after(now + ping)) : end;
}

/// True if the client's limit has not passed. A WebSocket is due earlier for a ping, so that no
/// proxy closes it. It is also early if pings were on when it was scheduled. The answer to a ping
/// is no sign of life.
bool Connection::is_early() {
    if (state_ != State::open) return false;
    const Tick end = tick_after(last_packet_ + limit_);
    if (end <= context_.wheel.now()) return false;
    if (websocket() && context_.settings.websocket_ping != 0) {
        append_ping(outgoing());
        sent_something();
    }
    context_.wheel.schedule(*this, std::min(end, due_at(monotonic_now())));
    return true;
}

/// Does it have a complete packet that waits until the shard has time?
bool Connection::holds_packet() const {
    return parked_ && partial_ &&
           next_frame(as_bytes(*partial_), context_.settings.max_packet_size, version_).status ==
               Frame::Status::complete;
}

}  // namespace pulsegate
