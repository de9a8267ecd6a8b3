#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/base/counters.h"
#include "server/routing/retained.h"
#include "server/routing/router.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/packed_sessions.h"
#include "server/session/delivery/replay.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/delivery/unfinished_deliveries.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/shard_context.h"
#include "server/session/events/event_recorder.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/tables.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Delivers messages: it routes each message to the shards that need it. On each shard, it delivers
/// the message to the subscribed sessions, to the devices of the user if the topic is an inbox, and
/// to one member of each shared subscription. It owns undelivered messages; it belongs to the
/// shard's thread.
class FanOut {
public:
    FanOut(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery);

    /// Retains a client's message or will, if it has the retain flag, and routes it. The receipt,
    /// if there is one, is settled when the message is safe for all receivers. Returns false if the
    /// message should be retained, but is not.
    bool publish(Message&& message, const Session* publisher, Millis now,
                 PendingReceipt* receipt = nullptr);

    /// Sends the message to all recipients on all shards, except to no-local subscriptions of
    /// `publisher`. Null: the publisher is not on this shard.
    void route(const MessageRef& message, const Session* publisher, Millis now,
               PendingReceipt* receipt = nullptr);

    /// A message that another shard has routed to this one.
    void receive(const MessageRef& message, Millis now) { receive(message, PartSource(), now); }
    void receive(const TrackedMessage& tracked, Millis now);

    /// Is there a message with recipients on this shard that do not have it yet?
    bool unfinished() const { return !unfinished_.empty(); }
    /// How many such messages are there?
    std::size_t under_way() const { return unfinished_.size(); }
    /// Do so many recipients wait behind the first one that no will should be published? Clients
    /// may publish one such message after the other.
    bool is_behind() const { return unfinished_.behind_first() >= settings_.recipients_a_turn; }
    /// The number of the last such message, and whether it or an earlier one is under way.
    std::uint64_t last_unfinished() const { return unfinished_.last(); }
    bool is_unfinished_upto(std::uint64_t number) const { return unfinished_.has_any_upto(number); }
    /// Delivers to the next recipients, at most `recipients_a_turn`. Messages that arrive from
    /// other shards or from clients meanwhile must come after them.
    void go_on(Millis now);
    /// The session has ended or starts from the beginning: earlier messages to it are dropped.
    void forget(const Session& session) { unfinished_.forget(session); }

    /// The measure of a round's work, since the start: routed messages, users and devices visited
    /// for inboxes and rooms, and recipients that had to wait for a later round.
    std::uint64_t work() const { return work_; }

private:
    void judge_retained(Message& message, Millis now);
    void store_retained(const MessageRef& message, PendingReceipt* receipt, Millis now);
    void receive(const MessageRef& message, PartSource parts, Millis now);
    bool is_for_this_shard(const Interest::Topic& topic, std::optional<unsigned> inbox) const;
    void fan_out(const MessageRef& message, const HashedText& topic, const Session* publisher,
                 const std::optional<std::string>& owner, PartSource parts, Millis now);
    void fan_out_to_groups(const MessageRef& message, const HashedText& topic, PartSource& parts,
                           Millis now);
    /// The receivers of a message besides the visited sessions.
    struct Found {
        bool has_room = true;  ///< is there room for the inboxes that it needs?
        /// The number of absent members of its room, which get it from the log.
        std::uint32_t behind = 0;
    };
    template <class Visit>
    Found visit_recipients(const Message& message, const HashedText& topic,
                           const Session* publisher, const std::optional<std::string>& owner,
                           const Rooms::Audience& audience, Millis now, Visit visit);
    template <class Visit>
    Found visit_user(const std::string& name, User* user, const Stamp* since,
                     const Message& message, const Session* except, Millis now, Visit& visit);
    template <class Visit>
    std::uint32_t visit_devices(User& user, const Stamp* since, const Message& message,
                                const Session* except, Visit& visit);
    void keep_for_absent(const MessageRef& message, std::uint32_t behind, PartSource& parts,
                         Millis now);
    void deliver(const Recipient& recipient, Delivery& delivery, PublishEncoder& encoder,
                 PartSource& parts, Millis now);
    std::optional<std::string> tell_of_away(const Message& message,
                                            const std::optional<std::string>& owner,
                                            const Rooms::Audience& audience, PartSource& parts,
                                            Millis now);
    void drop_expired(User& user, Millis now);
    void tell_if_away(const Message& message, const std::string& owner, PartSource& parts,
                      Millis now);
    std::optional<std::string> tell_members_away(const Message& message,
                                                 const Rooms::Members& members,
                                                 std::string_view after, PartSource& parts,
                                                 Millis now);
    std::optional<std::string> inbox_owner(std::string_view topic) const;

    const BrokerSettings& settings_;
    const ShardPlace place_;
    PackedSessions& packed_;
    Router& router_;
    Retained& retained_;
    Presence& presence_;
    Inboxes& inboxes_;
    const Rooms& rooms_;
    RoomLogs& room_logs_;
    SharedSubscriptions& shared_;
    Replay& replay_;
    PacketSender& packets_;
    Journal& journal_;
    EventRecorder& events_;
    Receipts& receipts_;
    Counters& counters_;
    BrokerHost& host_;
    UnfinishedDeliveries unfinished_;
    std::uint64_t work_ = 0;
};

}  // namespace pulsegate
