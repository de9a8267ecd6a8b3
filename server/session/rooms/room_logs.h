#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/counters.h"
#include "server/base/owner_thread.h"
#include "server/routing/router.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/shard_context.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/exchanges.h"
#include "server/session/state/tables.h"
#include "server/session/terms/reach.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Messages that were published to rooms at QoS 1 and 2 while members were absent. Each message is
/// kept once for all members on this shard, and in the store once for each shard. Each member has a
/// position, and is **behind** if there are later messages. When the member comes back, these
/// messages go into its own queue. A log has the bounds of one queue, and ends when no member is
/// behind. In an open room, an absent device with its own subscription gets the message into its
/// queue instead. RoomLogs belongs to the shard's thread.
class RoomLogs {
public:
    RoomLogs(const ShardContext& context, const Tables& tables, const Rooms& rooms,
             PacketSender& packets)
        : settings_(context.settings),
          place_(context.place),
          router_(tables.router),
          rooms_(rooms),
          presence_(tables.presence),
          packets_(packets),
          journal_(context.journal),
          counters_(context.counters) {}

    /// Is the device of a member absent, so that it gets the message from the log later? If not, it
    /// gets the message now, or in its queue.
    static bool is_behind(const Session& session, Stamp since, const Message& message);
    /// The same for a member without a device; `user` is null if the user is not known.
    bool is_behind(std::string_view name, const User* user, Stamp since,
                   const Message& message) const;

    /// Keeps the message for the members that are behind.
    DeliveryOutcome keep(const MessageRef& message, PartSource& parts, Millis now);

    /// The device comes back: puts the messages that it missed into its queue; if they are too many
    /// for one queue, the latest ones.
    void catch_up(Session& device, Millis now);
    /// Has the device missed any messages in its user's rooms?
    bool has_missed(const Session& device, Millis now);
    /// Would the first device of the user get missed messages?
    bool has_missed(std::string_view user, Millis now);
    /// The same as `catch_up`, for the inbox of a user without a device.
    void catch_up_inbox(Session& inbox, Millis now);

    /// How many messages the absent device has missed in all rooms, up to one queue.
    std::size_t missed(const Session& device, Millis now);

    /// The content of a room's log, for checks of many members.
    struct Content {
        std::string_view topic{};
        std::vector<Stamp> stamps{};  ///< ascending
        Stamp oldest_in_inboxes = 0;  ///< older messages do not wait for users without a device

        std::size_t later_than(Stamp position) const;
    };
    Content content(std::string_view topic, Millis now);
    /// How many messages wait for an offline member, in the room and in a queue: the maximum over
    /// the member's devices. `user` is null if the user is not known.
    std::size_t waiting(const Content& log, std::string_view name, const User* user,
                        Stamp since) const;

    /// The largest log, and the sum of all logs, as measured by a function of their queues.
    struct Largest {
        std::string topic{};
        std::size_t bytes = 0;
        std::size_t sum = 0;  ///< of all logs
        std::string next{};   ///< where to continue
    };
    using Bytes = std::size_t (Outbox::*)() const;
    /// Examines some more logs, and drops expired messages in them. Returns true when all are done.
    [[nodiscard]] bool find_largest(Largest& largest, Bytes bytes, Millis now);
    /// Halves a log, because there is too little room: drops the oldest messages of the senders
    /// with the most messages in it.
    void halve(std::string_view topic, const char* why, Millis now);

    /// Call it once a second: drops messages that have expired or that no member misses. It checks
    /// a thousand members at a time.
    void sweep(Millis now);

    /// Call it after a restart.
    void restore(const PutOwner& stored) { logs_[stored.user].owner = stored.owner; }
    void restore(std::string_view topic, const WaitingMessage& stored, const Receiver& receiver,
                 Millis expires);

    std::size_t size() const { return logs_.size(); }
    /// Members and messages visited since the start.
    std::uint64_t work() const { return work_; }

private:
    struct Log {
        Exchanges queue{};
        OwnerId owner = 0;
    };
    using Logs = std::map<std::string, Log, std::less<>>;
    struct Missed {
        const QueuedMessage* message;
        std::string_view topic;
    };

    /// Missed messages, as many as one queue may hold, in the order of stamps.
    struct Backlog {
        std::vector<Missed> messages{};
        std::size_t left_out = 0;
        QueueBounds::Bounds largest_room{};  ///< the largest of the rooms with unread messages
    };
    /// The unread messages of a room, visited from the newest to the oldest.
    struct Unread {
        std::string_view topic;
        Queue::const_reverse_iterator next, end;
        Stamp position;  ///< later messages were missed
    };
    /// The options with which a session gets the messages of a room, from its own subscriptions.
    struct Terms {
        bool retain_as_published = false;
        std::vector<std::uint32_t> identifiers{};
    };

    struct Positions {
        Stamp got = 0;   ///< the member has not received later messages
        Stamp done = 0;  ///< it will get later messages when it comes back
    };
    /// The progress of the sweep.
    struct Sweep {
        std::string topic{};
        std::string member{};
        Positions positions{};  ///< the minimum of all members so far
    };

    Log& find_or_create(const std::string& topic);
    const Outbox* queue_of(std::string_view topic, Millis now);
    bool has_missed(std::string_view user, Stamp position, Millis now);
    Backlog missed(const Session& session, Stamp position, Millis now);
    std::vector<Stamp> queued_after(const Session& session, Stamp position) const;
    void enqueue(Session& session, const Backlog& backlog, Millis now);
    Terms terms_of(const Session& session, std::string_view topic) const;
    static Receiver receiver(const Session& session, const QueuedMessage& message,
                             const Terms& terms);
    std::size_t waiting(const Content& log, const Session& device, Stamp since) const;
    Stamp position_of_devices(const User& user, Stamp since) const;
    Stamp oldest_in_inboxes(Millis now) const;
    Stamp position_without_device(std::string_view user, Millis now) const;
    bool sweep(const Rooms::Members& members, std::size_t& left, Millis now);
    Positions positions_of(std::string_view name, Stamp since, Millis now) const;
    std::size_t drop_done(const std::string& topic, Log& log, const Positions& positions);

    const BrokerSettings& settings_;
    const ShardPlace place_;
    Router& router_;
    const Rooms& rooms_;
    const Presence& presence_;
    PacketSender& packets_;
    Journal& journal_;
    Counters& counters_;
    Logs logs_;

    Sweep sweep_;
    mutable std::uint64_t work_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
