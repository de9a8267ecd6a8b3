#pragma once

#include <cstddef>

#include "server/session/packet_sender.h"
#include "server/session/presence.h"
#include "server/session/room_logs.h"
#include "server/session/session_keeper.h"

namespace pulsegate {

/// Drops messages that have expired where nobody asks for room: else those that wait for users who
/// are away would take memory and disk until these come back. A queue that is full drops its own,
/// see PacketSender. It belongs to the shard's thread.
class ExpiredMessages {
public:
    ExpiredMessages(Presence& presence, RoomLogs& room_logs, PacketSender& sender,
                    SessionKeeper& keeper)
        : presence_(presence), room_logs_(room_logs), sender_(sender), keeper_(keeper) {}

    /// Of what waits for the user's clients; an inbox that has nothing else ends.
    void drop(User& user, Millis now);
    /// Of all that waits; it looks at each user and each room.
    void drop_all(Millis now);

    /// Once a second: drops those of the next sixtieth of all users.
    void sweep(Millis now);

private:
    void drop(PresenceEntry& entry, Millis now);

    Presence& presence_;
    RoomLogs& room_logs_;
    PacketSender& sender_;
    SessionKeeper& keeper_;
    PresencePosition sweep_{};
};

}  // namespace pulsegate
