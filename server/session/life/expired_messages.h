#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/session/life/session_keeper.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Drops messages that have expired where nobody asks for room: else those that wait for users who
/// are away would take memory and disk until these come back. A queue that is full drops its own,
/// see QueueBounds. It belongs to the shard's thread.
class ExpiredMessages {
public:
    ExpiredMessages(Presence& presence, PacketSender& sender, SessionKeeper& keeper)
        : presence_(presence), queues_(sender.queues()), keeper_(keeper) {}

    /// Of what waits for the clients of users behind `after`, at most `most` of them, and as many
    /// as one turn has time for; an inbox that has nothing else ends. Returns the place to go on
    /// behind; nothing: that was all.
    std::optional<PresencePosition> drop_some(PresencePosition after, std::size_t most, Millis now);

    /// Once a second: drops those of the next sixtieth of all users.
    void sweep(Millis now);

private:
    bool drop(PresenceEntry& entry, std::uint64_t work_until, Millis now);
    bool drop(User& user, std::uint64_t work_until, Millis now);

    Presence& presence_;
    QueueBounds& queues_;
    SessionKeeper& keeper_;
    PresencePosition sweep_{};
};

}  // namespace pulsegate
