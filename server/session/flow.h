#pragma once

#include <boost/container/flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <list>

#include "server/message.h"

namespace pulsegate {

/// The messages of QoS 1 and 2 that are under way between a session and its client, in both
/// directions (MQTT 5.0, 4.3 and 4.4). Most sessions have none, and then no Flow either.
struct Flow {
    struct InFlight {
        Delivery delivery;  ///< without its message once that is released
        std::uint16_t packet_id;
        bool released = false;  ///< PUBREL was sent, PUBCOMP is awaited
    };

    /// Not deques: one takes 600 bytes before its first element, and most hold one at a time.
    using List = std::list<InFlight>;

    List sent;         ///< on this connection, the oldest first: they fill the client's window
    List interrupted;  ///< on one that ended: to be sent again, before anything new
    boost::container::flat_set<std::uint16_t> unreleased;  ///< QoS 2 from the client, up to PUBREL

    std::size_t waiting = 0;        ///< messages that the store keeps for the session
    std::size_t waiting_bytes = 0;  ///< their cost
    std::size_t lost = 0;           ///< to a full queue, since it was last said
    bool shared = false;            ///< some of it came by a shared subscription

    bool idle() const {
        return sent.empty() && interrupted.empty() && unreleased.empty() && waiting == 0 &&
               lost == 0;
    }

    /// Does anything stand before a new message?
    bool unsent() const { return !interrupted.empty() || waiting > 0; }

    /// The message in flight with this packet identifier, or `sent.end()`.
    List::iterator find(std::uint16_t packet_id);

    /// The packet identifier after `last` that no message in flight has. Fewer than all are taken.
    std::uint16_t next_packet_id(std::uint16_t last);

    /// The connection has ended: what was sent and not acknowledged will be sent again.
    void interrupt();

private:
    std::uint16_t free_ahead_ = 0;  ///< identifiers after the last that are known to be free
};

}  // namespace pulsegate
