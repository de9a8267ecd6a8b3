#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>

#include "server/base/memory/sparse.h"
#include "server/session/state/session.h"

namespace pulsegate {

/// Determines which presence at QoS 0 may have been sent to a dead connection. There is no
/// acknowledgement. But a client that can send can also receive, so messages that were sent long
/// before its last packet have arrived.
///
/// It knows the connected clients that were sent pages of a Replay; it belongs to the shard's
/// thread.
class UnconfirmedPresence {
public:
    /// The client was sent the states of users that have changed since this version, perhaps long
    /// ago.
    void sent(const Session& session, std::uint64_t since, Millis now);

    /// The client's connection has ended. It may not have received the states of users with this
    /// version or a higher one.
    std::uint64_t take(const Session& session, Millis last_packet, Millis limit, Millis now);

    /// The session ends.
    void forget(const Session& session) { pages_.erase(&session); }
    /// Call it once a second.
    void shrink() { shrink_if_sparse(pages_); }

private:
    struct Pages {
        std::uint64_t since;  ///< the lowest version that may not have arrived
        Millis at;            ///< when the last page was sent
    };
    boost::unordered_flat_map<const Session*, Pages> pages_;
};

}  // namespace pulsegate
