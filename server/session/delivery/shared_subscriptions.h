#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "server/base/owner_thread.h"
#include "server/session/delivery/share_groups.h"
#include "server/session/durable/broker_host.h"
#include "server/session/durable/shard_context.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/session.h"
#include "server/session/state/tables.h"
#include "server/session/terms/shard_place.h"

namespace pulsegate {

/// Shared subscriptions (MQTT 5.0, 4.8.2) across shards. The members' sessions may be on any shard,
/// and each group has one home shard; this class handles the messages between them. Messages
/// between two shards arrive in order. So a group knows that a member has left before it gets back
/// the messages that this member did not receive.
///
/// It owns the groups of this home shard, and knows the sessions on this shard that are members of
/// any group. It belongs to the shard's thread.
class SharedSubscriptions {
public:
    SharedSubscriptions(const ShardContext& context, const Tables& tables, PacketSender& packets);

    /// The session has subscribed to `$share/group/filter`, or changed its options. The receipt, if
    /// there is one, waits until the group knows about it.
    void join(Session& session, std::string_view share, SubscribeOptions options,
              std::uint32_t identifier, PendingReceipt* receipt = nullptr);
    /// The session has unsubscribed.
    void leave(Session& session, std::string_view share);

    /// Sends the change to all groups of the session.
    void notify_groups(const Session& session, GroupMembership::Change change);

    /// The session has ended.
    void forget(const Session& session) { members_.erase(session.id); }

    /// The session ends: its unacknowledged messages go to other members (MQTT 5.0, 4.8.2). At QoS
    /// 2, only messages that were never sent do so; the others belong to this session, and are
    /// lost. Returns the stamps of the passed messages.
    std::vector<Stamp> give_back(Session& session, Millis now);
    /// These messages go to other members of their groups.
    void give_back(std::vector<Delivery> deliveries, Millis now);

    /// Sends the message with this topic to one member of each group on this shard with a matching
    /// filter.
    void fan_out(const MessageRef& message, const HashedText& topic, PartSource& parts, Millis now);

    /// Members get the messages that were collected for them.
    void stored(Stamp stamp, Millis now);

    /// Retires the owner of a session that has ended: its messages in the store may be on their way
    /// to other members.
    void retire(OwnerId owner, Millis now);
    /// Call these before the shard runs, for a retired owner and for each message of such an owner.
    void restore_retired(OwnerId owner, Millis now) { retired_.push_back({owner, now}); }
    void restore(Delivery delivery);
    /// Call it once a second.
    void tick(Millis now);

    /// Call it before the journal hands in the operations of this round.
    void end_turn();

    void receive(GroupMembership& membership);
    void receive(GroupDelivery& assigned, Millis now);
    void receive(GroupStored& stored, Millis now);
    void receive(GroupRecall& recall, Millis now);
    void receive(GroupReturn& returned, Millis now);

    std::size_t groups() const { return groups_.groups(); }
    /// Is no message on its way to a member?
    bool is_idle() const { return held_.empty() && collected_.empty() && stored_now_.empty(); }

    std::uint64_t work() const { return groups_.work(); }

private:
    void assign(const MessageRef& message, const ShareGroups::Choice& choice, OwnerId owner,
                PartSource& parts, Millis now);
    void hold(GroupDelivery assigned, bool is_ready);
    void release(const GroupStored::Waiting& stored, Millis now);
    void recall_held(const GroupMembership& gone);
    void send(unsigned shard, GroupMembership membership);
    void send(unsigned shard, GroupDelivery delivery, Millis now);
    void send(unsigned shard, GroupReturn returned, Millis now);

    const ShardPlace place_;
    Router& router_;
    PacketSender& packets_;
    Journal& journal_;
    Receipts& receipts_;
    Counters& counters_;
    ShardLinks& shards_;
    ShareGroups groups_;
    boost::unordered_flat_map<SessionId, Session*> members_;
    /// A message on its way to a member. It waits for the store, or behind another message that
    /// does.
    struct Held {
        GroupDelivery assigned;
        bool is_ready;
        bool is_recalled = false;  ///< its member has gone, and the group will recall it and the
                                   ///< messages before it
    };
    boost::unordered_flat_map<SessionId, std::deque<Held>> held_;
    boost::unordered_flat_map<Stamp, std::vector<SessionId>> collected_;  ///< not stored yet
    std::vector<GroupStored::Waiting> stored_now_;  ///< messages that are stored with this round,
                                                    ///< and sent after that
    struct Retired {
        OwnerId owner;
        Millis since;
    };
    std::deque<Retired> retired_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
