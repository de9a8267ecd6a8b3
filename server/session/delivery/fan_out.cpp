#include "server/session/delivery/fan_out.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/message/topics.h"
#include "server/session/state/memory_limits.h"

namespace pulsegate {

FanOut::FanOut(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery)
    : settings_(context.settings),
      place_(context.place),
      packed_(delivery.packed),
      router_(tables.router),
      retained_(tables.retained),
      presence_(tables.presence),
      inboxes_(delivery.inboxes),
      rooms_(delivery.rooms),
      room_logs_(delivery.room_logs),
      shared_(delivery.shared),
      replay_(delivery.replay),
      packets_(delivery.packets),
      journal_(context.journal),
      events_(delivery.events),
      receipts_(context.receipts),
      counters_(context.counters),
      host_(context.host) {}

bool FanOut::publish(Message&& message, const Session* publisher, Millis now,
                     PendingReceipt* receipt) {
    const bool retained = message.retain && settings_.retain_available;
    if (message.retain && !retained)
        log_limited(spdlog::level::warn,
                    "message to {} delivered, but not retained: retain-available is off",
                    in_quotes(message.topic));
    const bool is_acknowledged = message.qos != QoS::at_most_once;
    // A room's message needs a stamp even without a store: the positions of members are stamps.
    const bool needs_stamp = is_acknowledged && (journal_.is_on() || rooms_.is_room(message.topic));
    if (retained || needs_stamp) message.stamp = next_stamp();
    if (retained) {
        message.retained = true;
        message.publisher = publisher ? publisher->fingerprint() : 0;
    }
    // Other messages count in no account, because they are neither retained nor queued.
    if (publisher && (retained || is_acknowledged))
        message.sender = fingerprint(publisher->user.name);
    if (retained) judge_retained(message, now);
    const auto shared = share(std::move(message));
    const bool must_come_once =
        shared->qos == QoS::exactly_once && publisher && publisher->state.owner != 0;
    if (receipt && (must_come_once || receipt->collects_all())) receipt->collect(shared);
    if (retained) retained_.keep(shared, now);
    if (retained && journal_.is_on()) store_retained(shared, receipt, now);
    route(shared, publisher, now, receipt);
    return !shared->not_kept;
}

/// Called on the publisher's shard only, for all shards.
void FanOut::store_retained(const MessageRef& message, PendingReceipt* receipt, Millis now) {
    const bool is_deletion = message->payload.empty() || message->not_kept;
    Operation operation = DropRetained{message->stamp, message->topic};
    if (!is_deletion)
        operation = PutRetained{.stamp = message->stamp,
                                .expires = as_wall_time(message->expires, now),
                                .flags = static_cast<std::uint32_t>(message->qos),
                                .publisher = message->publisher,
                                .sender = message->sender,
                                .message = message};
    if (receipt && !receipt->only_counts())
        journal_.add(std::move(operation), receipt->part());
    else
        journal_.add_lazily(std::move(operation));
}

/// Decides whether there is room to retain the message, and sets `not_kept` if not.
void FanOut::judge_retained(Message& message, Millis now) {
    const bool grows =
        !message.payload.empty() && message.cost() > retained_.cost_of(message.topic);
    const MemoryState memory = grows ? host_.memory() : MemoryState::plenty;
    const bool scarce = memory == MemoryState::used_up ||
                        (memory == MemoryState::scarce && message.cost() > small_message);
    const bool has_no_store = grows && host_.store_takes_nothing_new();
    message.not_kept = scarce || has_no_store || !retained_.fits(message, now);
    if (!message.not_kept) return;
    ++counters_.not_retained;
    log_limited(spdlog::level::warn, "message to {} delivered, but not retained: {} is reached",
                in_quotes(message.topic),
                has_no_store ? "the room of the store"
                : scarce
                    ? "memory-budget"
                    : "max-retained-messages, max-retained-bytes, or what a user may have of it");
}

void FanOut::route(const MessageRef& message, const Session* publisher, Millis now,
                   PendingReceipt* receipt) {
    ++work_;  // a message without subscribers counts as work, too, so that a round ends
    const Interest::Topic topic(message->topic);
    const auto owner = inbox_owner(message->topic);
    std::optional<unsigned> inbox;
    if (owner) inbox = place_.home_of(*owner);
    if (is_for_this_shard(topic, inbox))
        fan_out(message, topic, publisher, owner, receipt ? PartSource(receipt) : PartSource(),
                now);
    host_.forward(message, topic, inbox, receipt);
}

/// True if this shard needs the message. `ShardLinks::forward` asks the same about other shards.
bool FanOut::is_for_this_shard(const Interest::Topic& topic, std::optional<unsigned> inbox) const {
    return place_.homes.shards() == 1 || inbox == place_.index ||
           host_.interest(place_.index).may_match(topic);
}

void FanOut::receive(const TrackedMessage& tracked, Millis now) {
    const Stamp collected = tracked.collects ? tracked.message->stamp : 0;
    // A collected message at QoS 2 must be delivered once: see Publishing.
    const bool is_retried = tracked.collects && tracked.message->qos == QoS::exactly_once;
    receive(tracked.message,
            PartSource(PartRef(new OpenPart(receipts_, tracked.publisher, tracked.receipt,
                                            collected, is_retried))),
            now);
}

void FanOut::receive(const MessageRef& message, PartSource parts, Millis now) {
    if (message->retained) retained_.keep(message, now);
    fan_out(message, HashedText(message->topic), nullptr, inbox_owner(message->topic),
            std::move(parts), now);
}

/// Delivers to the first recipients at once, and to the others in later rounds.
void FanOut::fan_out(const MessageRef& message, const HashedText& topic, const Session* publisher,
                     const std::optional<std::string>& owner, PartSource parts, Millis now) {
    PublishEncoder encoder = packets_.encoder(*message, now);
    Delivery delivery{.message = message};
    const Rooms::Audience audience = rooms_.audience(message->topic);
    std::size_t room = unfinished() ? 0 : settings_.recipients_a_turn;
    std::vector<Recipient> later;
    const auto visit = [&](const Recipient& recipient) {
        // QoS 0 is only for clients that are connected now. Changes of presence are an exception:
        // an absent watcher gets the latest state when it is back.
        const bool is_away = !recipient.session->link && message->presence_version == 0;
        if (is_away && recipient.qos == QoS::at_most_once) return;
        // Messages to the inbox are not delayed, so that a new device finds all earlier messages in
        // it.
        if (room == 0 && !recipient.session->is_inbox()) return later.push_back(recipient);
        if (room > 0) --room;
        deliver(recipient, delivery, encoder, parts, now);
    };
    const Found found = visit_recipients(*message, topic, publisher, owner, audience, now, visit);
    if (!found.has_room) parts.count(DeliveryOutcome::no_room);
    keep_for_absent(message, found.behind, parts, now);
    auto told = tell_of_away(*message, owner, audience, parts, now);
    const bool is_done = later.empty() && !told && !unfinished();
    if (is_done) return fan_out_to_groups(message, topic, parts, now);
    if (!unfinished()) host_.deliver_later();
    unfinished_.add(message, std::move(later), parts.part(), std::move(told));
}

void FanOut::go_on(Millis now) {
    std::optional<PublishEncoder> encoder;
    Delivery delivery;
    unfinished_.advance(
        settings_.recipients_a_turn,
        [&](const MessageRef& message, const Recipient& recipient, const PartRef& part) {
            if (delivery.message != message) {
                delivery.message = message;
                encoder.emplace(settings_, *message, now);
            }
            ++work_;
            PartSource parts(part);
            deliver(recipient, delivery, *encoder, parts, now);
        },
        [&](const MessageRef& message, std::optional<std::string>& told, const PartRef& part) {
            PartSource parts(part);
            const auto* const members = rooms_.audience(message->topic).members();
            told =
                members ? tell_members_away(*message, *members, *told, parts, now) : std::nullopt;
        },
        [&](const MessageRef& message, const PartRef& part) {
            PartSource parts(part);
            fan_out_to_groups(message, HashedText(message->topic), parts, now);
        });
}

/// A group has no user that could be a member of a room or a watcher. The group may be older than
/// the setting that closed rooms.
void FanOut::fan_out_to_groups(const MessageRef& message, const HashedText& topic,
                               PartSource& parts, Millis now) {
    if (shared_.groups() > 0 && !rooms_.audience(message->topic).is_closed())
        shared_.fan_out(message, topic, parts, now);
}

void FanOut::deliver(const Recipient& recipient, Delivery& delivery, PublishEncoder& encoder,
                     PartSource& parts, Millis now) {
    Session& session = *recipient.session;
    const auto presence = delivery.message->presence_version;
    if (presence != 0 && !packets_.keeps_up(session)) return replay_.fall_behind(session, presence);
    delivery.qos = recipient.qos;
    delivery.retain = recipient.retain;
    delivery.identifiers = recipient.identifiers;
    const DeliveryOutcome outcome = packets_.enqueue(session, delivery, encoder, now, parts);
    const Millis received = delivery.message->received;
    if (outcome == DeliveryOutcome::sent && received != 0) counters_.delivery.count(now - received);
    parts.count(outcome);
}

/// Calls `visit(const Recipient&)` once for each session that gets the message now or in its own
/// queue.
template <class Visit>
FanOut::Found FanOut::visit_recipients(const Message& message, const HashedText& topic,
                                       const Session* publisher,
                                       const std::optional<std::string>& owner,
                                       const Rooms::Audience& audience, Millis now, Visit visit) {
    // Absent clients don't get QoS 0, see `fan_out`.
    const bool is_kept = message.qos != QoS::at_most_once || message.presence_version != 0;
    if (is_kept) packed_.unpack_subscriber(message.topic);
    User* const user = owner ? presence_.find(*owner) : nullptr;
    const bool declined = router_.match(topic, publisher, [&](const Match& match) {
        auto& session = static_cast<Session&>(*match.subscriber);
        if (!audience.admits(session.user.name)) return;
        const Stamp* const since = audience.since(session.user.name);
        // An absent member of a closed room gets the message from the room's log. In an open room,
        // its own subscription counts, and the messages that it brings stay when the membership
        // ends.
        if (since && audience.is_closed() && RoomLogs::is_behind(session, *since, message)) return;
        const bool is_own = user == &session.user || since;
        if (is_own) session.is_reached = true;
        visit(Recipient{&session, std::min(message.qos, is_own ? settings_.max_qos : match.qos),
                        message.retain && match.retain_as_published, match.identifiers});
    });
    const Session* const except = declined ? publisher : nullptr;
    if (owner) return visit_user(*owner, user, nullptr, message, except, now, visit);
    Found found;
    if (!audience.members()) return found;
    for (const auto& [name, since] : *audience.members()) {
        User* const member = presence_.find(name);
        const Found of_one = visit_user(name, member, &since, message, except, now, visit);
        found.has_room &= of_one.has_room;
        found.behind += of_one.behind;
    }
    return found;
}

/// Visits all sessions that get the message because of the user: through the inbox (`since` is
/// null), or as a member of a room. The user may be unknown here.
template <class Visit>
FanOut::Found FanOut::visit_user(const std::string& name, User* user, const Stamp* since,
                                 const Message& message, const Session* except, Millis now,
                                 Visit& visit) {
    ++work_;
    const std::uint32_t behind = user ? visit_devices(*user, since, message, except, visit) : 0;
    if (message.qos == QoS::at_most_once || behind > 0) return {.behind = behind};
    if (since && room_logs_.is_behind(name, user, *since, message)) return {.behind = 1};
    const Inboxes::Found found = inboxes_.receiver(name, user, message, now);
    if (found.inbox)
        visit(Recipient{found.inbox, std::min(message.qos, settings_.max_qos), false, {}});
    return {.has_room = found.has_room};
}

/// Visits the user's sessions that don't get the message by their own subscription. Returns the
/// number of absent sessions that get it from the room's log. A session gets a message that was
/// under way when it left directly.
template <class Visit>
std::uint32_t FanOut::visit_devices(User& user, const Stamp* since, const Message& message,
                                    const Session* except, Visit& visit) {
    std::uint32_t behind = 0;
    for (Device& device : user.devices) {
        ++work_;
        auto& session = static_cast<Session&>(device);
        if (session.is_inbox()) continue;
        const bool was_reached = session.is_reached;
        session.is_reached = false;
        if (was_reached || &session == except) continue;
        if (since && RoomLogs::is_behind(session, *since, message))
            ++behind;
        else
            visit(Recipient{&session, std::min(message.qos, settings_.max_qos), false, {}});
    }
    return behind;
}

void FanOut::keep_for_absent(const MessageRef& message, std::uint32_t behind, PartSource& parts,
                             Millis now) {
    if (behind == 0) return;
    const DeliveryOutcome outcome = room_logs_.keep(message, parts, now);
    for (; behind > 0; --behind) parts.count(outcome);
}

/// Tells backends about messages that wait for users without a connected device. Returns the last
/// member of the room that it checked; nothing if all are checked.
std::optional<std::string> FanOut::tell_of_away(const Message& message,
                                                const std::optional<std::string>& owner,
                                                const Rooms::Audience& audience, PartSource& parts,
                                                Millis now) {
    const bool is_told =
        events_.wants(EventKind::message_waiting) && message.qos != QoS::at_most_once;
    if (is_told && owner) tell_if_away(message, *owner, parts, now);
    if (!is_told || owner || !audience.members()) return std::nullopt;
    return tell_members_away(message, *audience.members(), {}, parts, now);
}

std::optional<std::string> FanOut::tell_members_away(const Message& message,
                                                     const Rooms::Members& members,
                                                     std::string_view after, PartSource& parts,
                                                     Millis now) {
    constexpr std::size_t members_a_turn = 1000;
    std::size_t left = members_a_turn;
    std::optional<RoomLogs::Content> log;
    for (auto next = members.upper_bound(after); next != members.end(); ++next) {
        const auto& [name, since] = *next;
        if (left-- == 0) return std::prev(next)->first;
        ++work_;
        User* const user = presence_.find(name);
        if (user && user->here > 0) continue;
        if (!events_.may_tell_waiting(message, now)) {
            events_.withhold();
            continue;
        }
        if (user) drop_expired(*user, now);
        if (!log) log = room_logs_.content(message.topic, now);
        const std::size_t waiting = room_logs_.waiting(*log, name, user, since);
        if (waiting > 0) events_.message_waiting(message, name, waiting, parts.part(), now);
    }
    return std::nullopt;
}

/// Drops expired messages, because they must not count as waiting.
void FanOut::drop_expired(User& user, Millis now) {
    for (Device& device : user.devices)
        packets_.queues().drop_expired(static_cast<Session&>(device), now);
}

/// Called on each shard, but only the user's home shard tells backends.
void FanOut::tell_if_away(const Message& message, const std::string& owner, PartSource& parts,
                          Millis now) {
    User* const user = place_.is_home_of(owner) ? presence_.find(owner) : nullptr;
    if (!user || user->here > 0 || user->devices.empty()) return;
    drop_expired(*user, now);
    std::size_t waiting = 1;  // this message may be delivered in a later round
    for (const Device& device : user->devices) {
        ++work_;
        const auto& session = static_cast<const Session&>(device);
        waiting = std::max(waiting, session.state.exchanges().outbox().waiting());
    }
    events_.message_waiting(message, owner, waiting, parts.part(), now);
}

/// The user, if the topic is a user's inbox; nothing for other topics, or if `inbox` is off.
std::optional<std::string> FanOut::inbox_owner(std::string_view topic) const {
    return settings_.inbox ? inbox_user(topic) : std::nullopt;
}

}  // namespace pulsegate
