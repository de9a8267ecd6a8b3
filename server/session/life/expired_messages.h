#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "server/session/life/session_keeper.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Drops expired messages even if no room is needed. Otherwise, messages for absent users would use
/// memory and disk until these users come back. A full queue drops its own expired messages, see
/// QueueBounds. It belongs to the shard's thread.
class ExpiredMessages {
public:
    ExpiredMessages(Presence& presence, PacketSender& packets, SessionKeeper& keeper)
        : presence_(presence), queues_(packets.queues()), keeper_(keeper) {}

    /// Drops expired messages of at most `most` users after `after`, and of as many as one round
    /// has time for. An inbox without other messages ends. Calls `done` for each of these users.
    /// Returns the place to continue after; nothing if all users are done.
    std::optional<PresencePosition> drop_some(
        PresencePosition after, std::size_t most, Millis now,
        const std::function<void(const PresenceEntry&)>& done = {});

    /// Call it once a second: drops the expired messages of the next sixtieth of all users.
    void sweep(Millis now);

private:
    const PresenceEntry* drop(PresenceEntry& entry, std::uint64_t work_until, Millis now);
    bool drop(User& user, std::uint64_t work_until, Millis now);

    Presence& presence_;
    QueueBounds& queues_;
    SessionKeeper& keeper_;
    PresencePosition sweep_{};
};

}  // namespace pulsegate
