#include "server/session/delivery/shared_subscriptions.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "protocol/topic.h"
#include "server/base/log.h"

namespace pulsegate {

namespace {

/// A retired owner ends after this time. Until then, the members that received its messages may
/// acknowledge them.
constexpr Millis retirement = 10 * 60'000;

QoS qos_of(const Message& message, const ShareGroups::Choice& choice) {
    return std::min(message.qos, choice.options.qos);
}

}  // namespace

SharedSubscriptions::SharedSubscriptions(const ShardContext& context, const Tables& tables,
                                         PacketSender& packets)
    : place_(context.place),
      router_(tables.router),
      packets_(packets),
      journal_(context.journal),
      receipts_(context.receipts),
      counters_(context.counters),
      shards_(context.host),
      groups_(tables.interest) {}

// -- members --

void SharedSubscriptions::join(Session& session, std::string_view share, SubscribeOptions options,
                               std::uint32_t identifier, PendingReceipt* receipt) {
    thread_.assert_here();
    members_.emplace(session.id, &session);
    const unsigned group = place_.home_of(share);
    // Messages must reach the group's home from now on, even while the GroupMembership still waits
    // in its mailbox. The home would add the filter too late: a client may send a PUBLISH behind
    // its SUBSCRIBE without awaiting the SUBACK, and after a start, clients publish as soon as
    // their own shard runs.
    const auto table = shards_.interest(group).add(shared_filter(share)->filter);
    // The group's shard may store a message for this member at once, so the store must know the
    // member.
    if (session.link && group != place_.index) journal_.flush();
    const bool is_awaited = receipt && group != place_.index;
    send(group, GroupMembership{.change = GroupMembership::Change::joins,
                                .share = std::string(share),
                                .member = session.id,
                                .options = options,
                                .identifier = identifier,
                                .table = table,
                                .owner = session.state.owner,
                                .reply_to = place_.index,
                                .receipt = is_awaited ? receipt->add_part() : 0});
    if (!session.link || !session.link->has_lost_node()) return;
    // A connection may handle packets that it had read before it lost its node.
    const auto gives_back = GroupMembership::Change::gives_back;
    send(group, GroupMembership{gives_back, std::string(share), session.id});
}

void SharedSubscriptions::leave(Session& session, std::string_view share) {
    thread_.assert_here();
    if (session.state.shared_count() == 0) forget(session);
    send(place_.home_of(share),
         GroupMembership{GroupMembership::Change::leaves, std::string(share), session.id});
}

void SharedSubscriptions::notify_groups(const Session& session, GroupMembership::Change change) {
    if (session.state.shared_count() == 0) return;
    for (const Subscription& subscription : session.state.subscriptions()) {
        const auto filter = subscription.filter->text();
        if (shared_filter(filter))
            send(place_.home_of(filter), GroupMembership{change, std::string(filter), session.id});
    }
}

std::vector<Stamp> SharedSubscriptions::give_back(Session& session, Millis now) {
    thread_.assert_here();
    if (!session.state.exchanges().outbox().has_shared()) return {};
    const auto goes_back = [](const Delivery& delivery, bool sent) {
        return delivery.share && !(sent && delivery.qos == QoS::exactly_once);
    };
    // Takes all messages out before it assigns any, because one may be assigned to this session
    // again.
    auto deliveries = session.state.exchanges().change_outbox(
        [&](Outbox& outbox) { return outbox.take_if(session.state.owner, goes_back); });
    std::vector<Stamp> stamps;
    stamps.reserve(deliveries.size());
    for (const Delivery& each : deliveries) stamps.push_back(each.message->stamp);
    give_back(std::move(deliveries), now);
    return stamps;
}

void SharedSubscriptions::give_back(std::vector<Delivery> deliveries, Millis now) {
    for (Delivery& delivery : deliveries) {
        const unsigned group = place_.home_of(*delivery.share);
        send(group, GroupReturn{std::move(delivery)}, now);
    }
}

// -- groups --

void SharedSubscriptions::fan_out(const MessageRef& message, const HashedText& topic,
                                  PartSource& parts, Millis now) {
    thread_.assert_here();
    groups_.match(topic, [&](const ShareGroups::Choice& choice) {
        const bool waits = !choice.connected && qos_of(*message, choice) != QoS::at_most_once;
        if (waits && packets_.queues().is_refused(choice.owner, {.message = message}))
            parts.count(DeliveryOutcome::refused);
        else
            assign(message, choice, 0, parts, now);
    });
}

/// `owner` is the owner that has the message in the store until now; 0: none.
void SharedSubscriptions::assign(const MessageRef& message, const ShareGroups::Choice& choice,
                                 OwnerId owner, PartSource& parts, Millis now) {
    Delivery delivery{.message = message,
                      .qos = qos_of(*message, choice),
                      .retain = message->retain && choice.options.retain_as_published,
                      .share = choice.share};
    if (choice.identifier != 0) delivery.identifiers.push_back(choice.identifier);
    delivery.owner = owner;
    if (choice.connected)
        parts.count(DeliveryOutcome::sent);
    else if (delivery.qos != QoS::at_most_once)
        parts.count(DeliveryOutcome::queued);
    packets_.store().store_for(choice.owner, delivery, parts, now);
    const bool may_come_again = delivery.qos == QoS::at_least_once;
    const bool is_kept = choice.owner != 0 && delivery.qos != QoS::at_most_once;
    const bool is_stored = delivery.owner != 0;
    if (is_stored && !is_kept && !may_come_again) {
        // The message ends with this member's session or connection. After that, no other member
        // may get it (4.8.2).
        packets_.store().drop(delivery);
        delivery.owner = 0;
    }
    const PartRef part = delivery.owner != 0 ? parts.part() : PartRef();
    const GroupStored::Waiting waiting{choice.member, message->stamp};
    GroupDelivery assigned{choice.member, std::move(delivery), !choice.connected};
    if (part && part->collects()) {
        collected_[waiting.stamp].push_back(waiting.member);
        hold(std::move(assigned), false);
    } else if (is_stored && !may_come_again) {
        stored_now_.push_back(waiting);
        journal_.begin_turn();
        hold(std::move(assigned), false);
    } else if (held_.contains(choice.member)) {
        hold(std::move(assigned), true);
    } else {
        send(place_.home_of(choice.member), std::move(assigned), now);
    }
}

/// Holds a message until it may be sent. Limits the number of QoS 0 messages that wait.
void SharedSubscriptions::hold(GroupDelivery assigned, bool is_ready) {
    constexpr std::size_t most_waiting = 256;
    auto& held = held_[assigned.member];
    const bool may_be_lost = is_ready && assigned.delivery.qos == QoS::at_most_once;
    if (may_be_lost && held.size() >= most_waiting) return;
    held.push_back({std::move(assigned), is_ready});
}

/// Sends the member the messages that are stored for it, up to the first message that is not
/// stored.
void SharedSubscriptions::release(const GroupStored::Waiting& stored, Millis now) {
    const auto found = held_.find(stored.member);
    auto held = std::move(found->second);
    const auto is_it = [&](const Held& each) {
        return !each.is_ready && each.assigned.delivery.message->stamp == stored.stamp;
    };
    std::ranges::find_if(held, is_it)->is_ready = true;
    std::vector<Held> ready;
    for (; !held.empty() && held.front().is_ready; held.pop_front())
        ready.push_back(std::move(held.front()));
    if (held.empty())
        held_.erase(found);
    else
        found->second = std::move(held);
    const unsigned home = place_.home_of(stored.member);
    for (Held& each : ready) {
        const auto recalled = each.is_recalled ? each.assigned.delivery.share : nullptr;
        send(home, std::move(each.assigned), now);
        if (recalled) shards_.send(home, GroupRecall{stored.member, *recalled});
    }
}

/// Messages that were not sent to the member yet can't be taken from it. So the group recalls them
/// later, after the last one was sent.
void SharedSubscriptions::recall_held(const GroupMembership& gone) {
    const auto found = held_.find(gone.member);
    if (found == held_.end()) return;
    auto& held = found->second;
    const auto last = std::find_if(held.rbegin(), held.rend(), [&](const Held& each) {
        return *each.assigned.delivery.share == gone.share;
    });
    if (last != held.rend()) last->is_recalled = true;
}

/// The store keeps the retired owner until its messages are stored for other members. This takes
/// some milliseconds if the disk works. After a crash before that, the next start gives the
/// messages to the groups.
void SharedSubscriptions::retire(OwnerId owner, Millis now) {
    journal_.add(RetireOwner{owner});
    retired_.push_back({owner, now});
}

void SharedSubscriptions::tick(Millis now) {
    while (!retired_.empty() && retired_.front().since + retirement <= now) {
        if (journal_.is_refused()) return;
        journal_.add_lazily(EndOwner{retired_.front().owner});
        retired_.pop_front();
    }
}

/// Sent through the mailbox, after the members that other shards have restored.
void SharedSubscriptions::restore(Delivery delivery) {
    const unsigned group = place_.home_of(*delivery.share);
    shards_.send(group, GroupReturn{std::move(delivery)});
}

/// A message that must not be delivered twice is sent only when the store knows that this member
/// has it. Otherwise another member could get it after a crash, even if this member's shard has
/// stored that the member is done with it.
void SharedSubscriptions::end_turn() {
    if (stored_now_.empty()) return;
    PendingReceipt receipt(receipts_);
    journal_.await_retries(receipt.part());
    const auto hand_out = [this, stored = std::exchange(stored_now_, {})](const Published&) {
        shards_.later(GroupStored{stored});
    };
    receipts_.report(receipt.close(), {}, hand_out);
}

void SharedSubscriptions::stored(Stamp stamp, Millis now) {
    thread_.assert_here();
    const auto found = collected_.find(stamp);
    if (found == collected_.end()) return;
    const auto members = std::move(found->second);
    collected_.erase(found);
    for (const SessionId member : members) release({member, stamp}, now);
}

void SharedSubscriptions::receive(GroupStored& stored, Millis now) {
    thread_.assert_here();
    for (const GroupStored::Waiting& each : stored.messages) release(each, now);
}

// -- messages between shards: this shard handles its own at once, other shards get them in their
// mailboxes --

void SharedSubscriptions::send(unsigned shard, GroupMembership membership) {
    if (shard == place_.index) return receive(membership);
    shards_.send(shard, std::move(membership));
}

void SharedSubscriptions::send(unsigned shard, GroupDelivery delivery, Millis now) {
    if (shard == place_.index) return receive(delivery, now);
    shards_.send(shard, std::move(delivery));
}

void SharedSubscriptions::send(unsigned shard, GroupReturn returned, Millis now) {
    if (shard == place_.index) return receive(returned, now);
    shards_.send(shard, std::move(returned));
}

void SharedSubscriptions::receive(GroupMembership& membership) {
    thread_.assert_here();
    using Change = GroupMembership::Change;
    groups_.apply(membership);
    if (membership.change == Change::gives_back && groups_.has_connected(membership.share)) {
        shards_.send(place_.home_of(membership.member),
                     GroupRecall{membership.member, membership.share});
        recall_held(membership);
    }
    if (membership.change != Change::joins) return;
    // From now on the group has its own entry in the Interest.
    shards_.interest(place_.index)
        .remove(shared_filter(membership.share)->filter, membership.table);
    if (membership.receipt != 0)
        receipts_.settle(membership.reply_to, {membership.receipt, false, place_.index});
}

void SharedSubscriptions::receive(GroupDelivery& assigned, Millis now) {
    thread_.assert_here();
    const auto found = members_.find(assigned.member);
    // The member may have left while the message was in the mailbox, or may have started a new
    // session. A disconnected member keeps the message in its queue. If other members are
    // connected, the group recalls it.
    const bool may_wait =
        assigned.even_if_disconnected || assigned.delivery.qos != QoS::at_most_once;
    const bool takes_it = found != members_.end() && (found->second->link || may_wait) &&
                          found->second->state.subscribed(router_, *assigned.delivery.share);
    if (!takes_it) {
        const unsigned group = place_.home_of(*assigned.delivery.share);
        return send(group, GroupReturn{std::move(assigned.delivery), assigned.member}, now);
    }
    PublishEncoder encoder = packets_.encoder(*assigned.delivery.message, now);
    PartSource nobody_waits;
    packets_.enqueue(*found->second, assigned.delivery, encoder, now, nobody_waits);
}

/// Gives the queued messages of the group back. A message that the session also has by its own
/// subscription stays, because the store does not distinguish the two.
void SharedSubscriptions::receive(GroupRecall& recall, Millis now) {
    thread_.assert_here();
    const auto found = members_.find(recall.member);
    if (found == members_.end()) return;
    Session& session = *found->second;
    if (session.link && !session.link->has_lost_node()) return;  // it is back
    const Outbox& outbox = session.state.exchanges().outbox();
    const bool is_member = session.state.subscribed(router_, recall.share);
    if (!outbox.has_shared() || !is_member) return;
    const bool is_stored = session.state.owner != 0;
    const auto stamps = is_stored ? outbox.stamps() : std::vector<Stamp>();
    const auto goes_back = [&](const Delivery& delivery, bool sent) {
        if (!delivery.share || *delivery.share != recall.share) return false;
        if (sent && delivery.qos == QoS::exactly_once) return false;
        const Stamp stamp = delivery.message->stamp;
        const auto first = std::ranges::lower_bound(stamps, stamp);
        return std::ranges::upper_bound(stamps, stamp) - first <= 1;
    };
    auto deliveries = session.state.exchanges().change_outbox(
        [&](Outbox& changed) { return changed.take_if(session.state.owner, goes_back); });
    give_back(std::move(deliveries), now);
}

void SharedSubscriptions::receive(GroupReturn& returned, Millis now) {
    thread_.assert_here();
    const Delivery& delivery = returned.delivery;
    PartSource nobody_waits;
    if (const auto choice = groups_.choose(*delivery.share)) {
        // The member would get it too late, and QoS 0 does not wait.
        const bool is_too_late = choice->member == returned.from &&
                                 qos_of(*delivery.message, *choice) == QoS::at_most_once;
        if (is_too_late) return packets_.store().drop(delivery);
        return assign(delivery.message, *choice, delivery.owner, nobody_waits, now);
    }
    packets_.store().drop(delivery);
    ++counters_.dropped_no_member;
    log_limited(spdlog::level::warn,
                "message to {} dropped: the shared subscription {} has no members",
                in_quotes(delivery.message->topic), in_quotes(*delivery.share));
}

}  // namespace pulsegate
