// Connections of clients that have their socket on one node, the edge, and their session on
// another, the home.
#include <algorithm>

#include "server/transport/connections/connection.h"

namespace pulsegate {

// -- the node with the session --

/// Asks the edge, which watches the client's silence. Returns true if the connection does not time
/// out now.
bool Connection::await_edge() {
    if (!channel() || state_ != State::open) return false;
    if (channel()->has_lost_edge()) {
        if (const Tick more = channel()->newly_postponed(context_.postponed); more > 0) {
            context_.wheel.schedule(*this, deadline() + more);
            return true;
        }
        end({Cause::node_lost, Reason::success,
             "the node with its connection is gone, and it did not come back"});
        return true;
    }
    channel()->ask_silence();
    context_.wheel.schedule(*this, due_at(monotonic_now()));
    return true;
}

void Connection::lose_edge(Millis since, Tick postponed) {
    if (!channel() || channel()->has_lost_edge() || !reads()) return;
    const boost::intrusive_ptr alive(this);
    channel()->lose_edge();
    static_cast<void>(channel()->newly_postponed(postponed));
    if (state_ == State::login)
        return end({Cause::connection_lost, Reason::success, "the node with its connection is gone",
                    true});
    if (state_ != State::open) return;
    context_.owner.on_lost_edge(*this);
    last_packet_ = std::max(last_packet_, since);
    // The edge may be alive, but cut off. It disconnects its clients only now, so they need time to
    // come back.
    constexpr Tick ticks_to_return = 3;
    const Tick soonest = context_.wheel.now() + ticks_to_return;
    context_.wheel.schedule(*this, std::max(due_at(last_packet_), soonest));
}

void Connection::hear_silence(Millis silence) {
    last_packet_ = std::max(last_packet_, monotonic_now() - silence);
}

// -- the node with the socket --

void Connection::go_on_forwarding(Millis limit, std::uint32_t largest_packet) {
    if (!held()) return;
    const boost::intrusive_ptr alive(this);
    const Millis now = monotonic_now();
    queued_ = false;
    forwards_ = true;
    set_limit(limit);
    set_largest_packet(largest_packet);
    open();
    last_packet_ = now;
    context_.wheel.schedule(*this, due_at(now));
    consume({}, now);
    end_websocket();
    settle();
    read_on();
}

}  // namespace pulsegate
