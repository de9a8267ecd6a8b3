#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/base/counters.h"
#include "server/routing/retained.h"
#include "server/routing/router.h"
#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/dormant_sessions.h"
#include "server/session/delivery/event_recorder.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/replay.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/delivery/unfinished_deliveries.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/shard_context.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/tables.h"
#include "server/session/terms/settings.h"
#include "server/session/terms/shard_place.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// Delivers messages: it routes each to the shards that need it, and on each of them fans it out to
/// the subscribed sessions, to the devices of the user whose inbox it is for, and to one member of
/// each shared subscription. A message touches nearly every part of a shard, once: hence so many
/// members. It owns what is not delivered yet; it belongs to the shard's thread.
class FanOut {
public:
    FanOut(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery);

    /// Retains a client's message or will, if it has the retain flag, and routes it. The receipt,
    /// if there is one, is settled when the message is safe for all who are to get it. False: it
    /// should be retained, and is not.
    bool publish(Message&& message, const Session* publisher, Millis now,
                 PendingReceipt* receipt = nullptr);

    /// Sends the message to all recipients on all shards, but not to subscriptions of `publisher`
    /// with no-local. Null: the publisher is not on this shard.
    void route(const MessageRef& message, const Session* publisher, Millis now,
               PendingReceipt* receipt = nullptr);

    /// A message that another shard has routed to this one.
    void receive(const MessageRef& message, Millis now) { receive(message, DebtSource(), now); }
    void receive(const TrackedMessage& tracked, Millis now);

    /// Has a message so many recipients here that some of them are still to get it?
    bool unfinished() const { return !unfinished_.empty(); }
    /// The number of the last such message, and whether it or an earlier one is under way.
    std::uint64_t last_unfinished() const { return unfinished_.last(); }
    bool is_unfinished_upto(std::uint64_t number) const { return unfinished_.has_any_upto(number); }
    /// Delivers to the next of them, at most `recipients_a_turn`. Whatever arrives from other
    /// shards comes after them, and so should what clients publish meanwhile.
    void go_on(Millis now);
    /// The session has ended, or begins anew: what was published to it before is dropped.
    void forget(const Session& session) { unfinished_.forget(session); }

    /// Messages that were routed, users and devices visited for inboxes and rooms, and recipients
    /// that had to wait for a later turn, since the start: the measure of a turn's work.
    std::uint64_t work() const { return visited_; }

private:
    void judge_retained(Message& message, Millis now);
    void store_retained(const MessageRef& message, PendingReceipt* receipt, Millis now);
    void receive(const MessageRef& message, DebtSource debts, Millis now);
    bool is_for_this_shard(const Interest::Topic& topic, std::optional<unsigned> inbox) const;
    void fan_out(const MessageRef& message, const HashedText& topic, const Session* publisher,
                 const std::optional<std::string>& owner, DebtSource debts, Millis now);
    void fan_out_to_groups(const MessageRef& message, const HashedText& topic, DebtSource& debts,
                           Millis now);
    /// Who is to get a message, besides those who are visited.
    struct Found {
        bool has_room = true;      ///< for the inboxes that it needs
        std::uint32_t behind = 0;  ///< members of its room who are away, and get it from the log
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
    void keep_for_absent(const MessageRef& message, std::uint32_t behind, DebtSource& debts,
                         Millis now);
    void deliver(const Recipient& recipient, Delivery& delivery, PublishEncoder& encoder,
                 DebtSource& debts, Millis now);
    std::optional<std::string> tell_of_away(const Message& message,
                                            const std::optional<std::string>& owner,
                                            const Rooms::Audience& audience, DebtSource& debts,
                                            Millis now);
    void drop_expired(User& user, Millis now);
    void tell_if_away(const Message& message, const std::string& owner, DebtSource& debts,
                      Millis now);
    std::optional<std::string> tell_members_away(const Message& message,
                                                 const Rooms::Members& members,
                                                 std::string_view after, DebtSource& debts,
                                                 Millis now);
    std::optional<std::string> inbox_owner(std::string_view topic) const;

    const BrokerSettings& settings_;
    const ShardPlace place_;
    DormantSessions& dormant_;
    Router& router_;
    Retained& retained_;
    Presence& presence_;
    Inboxes& inboxes_;
    const Rooms& rooms_;
    RoomLogs& room_logs_;
    SharedSubscriptions& shared_;
    Replay& replay_;
    PacketSender& sender_;
    Journal& journal_;
    EventRecorder& events_;
    Receipts& receipts_;
    Counters& counters_;
    BrokerHost& host_;
    UnfinishedDeliveries unfinished_;
    std::uint64_t visited_ = 0;
};

}  // namespace pulsegate
