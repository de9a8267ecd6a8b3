#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "server/session/delivery/inboxes.h"
#include "server/session/life/expired_messages.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// The user who takes most memory: with sessions of disconnected clients, subscriptions and
/// messages. A message counts in each queue that it is in.
struct Holder {
    std::string user{};
    std::size_t bytes = 0;
    std::size_t sum = 0;   ///< of all users
    unsigned holders = 0;  ///< users who take any memory
};

/// The bytes that a search counts for users, rooms and inboxes.
struct HeldBytes {
    std::size_t (*of_user)(const PresenceEntry& user);
    RoomLogs::Bytes of_room;
    bool has_bodies_of_inboxes;
};

/// Finds the user, the room and the sender in inboxes that take most memory, and drops expired
/// messages on its way. There may be a million of them, so it takes many rounds. It belongs to the
/// shard's thread.
class HolderSearch {
public:
    /// `expired_before`: bytes of messages that had expired, see QueueBounds.
    HolderSearch(HeldBytes counted, std::uint64_t expired_before)
        : expired_before(expired_before), counted_(counted) {}

    /// Examines some more users, rooms and senders. Returns true when all were examined.
    [[nodiscard]] bool go_on(ExpiredMessages& expired, RoomLogs& logs, const Inboxes& inboxes,
                             Millis now);

    const Holder& holder() const { return holder_; }
    const RoomLogs::Largest& log() const { return log_; }
    const InboxSenders::Largest& inboxes() const { return inboxes_.largest; }

    const std::uint64_t expired_before;

private:
    void count(const PresenceEntry& user);

    const HeldBytes counted_;
    /// Nothing: all users are counted.
    std::optional<PresencePosition> next_user_{PresencePosition{}};
    Holder holder_;
    RoomLogs::Largest log_;
    bool has_all_logs_ = false;
    InboxSenders::Search inboxes_;
};

}  // namespace pulsegate
