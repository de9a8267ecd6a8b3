#include "server/session/sending/queue_bounds.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/session/sending/surplus.h"
#include "server/session/users/history_event.h"

namespace pulsegate {

namespace {

HistoryEvent dropped(const Session& session, std::size_t messages, const char* why) {
    return {.kind = HistoryKind::dropped,
            .time = wall_now(),
            .count = static_cast<std::uint32_t>(messages),
            .client = session.client,
            .why = why,
            .link = session.link};
}

template <class Wanted>
Queue take_queued_if(Exchanges& queue, Wanted wanted) {
    return queue.change_outbox([&](Outbox& outbox) { return outbox.take_queued_if(wanted); });
}

}  // namespace

/// If a reload lowers the limits, a queue that exceeds them keeps its messages.
QueueBounds::Bounds QueueBounds::bounds_of(const Exchanges& queue) const {
    const Outbox& outbox = queue.outbox();
    return {.messages = std::max<std::size_t>(settings_.max_queued_messages, outbox.queued()),
            .bytes = std::max<std::size_t>(settings_.max_queued_bytes, outbox.queued_bytes())};
}

/// An empty queue takes a message of any size.
bool QueueBounds::is_full(const Exchanges& queue, const Bounds& bounds, std::size_t bytes) {
    const Outbox& outbox = queue.outbox();
    return outbox.queued() > 0 &&
           (outbox.queued() >= bounds.messages || outbox.queued_bytes() + bytes > bounds.bytes);
}

/// True if a queue that has messages should not grow, because memory or the disk is short.
bool QueueBounds::is_short(OwnerId owner, const Exchanges& queue) const {
    if (queue.outbox().queued() == 0) return false;
    return owner != 0 ? host_.is_store_full() : host_.memory() != MemoryState::plenty;
}

bool QueueBounds::has_expired(const Delivery& delivery, Millis now) {
    const bool has_expired = delivery.message->expired(now);
    if (has_expired) ++counters_.dropped_expired;
    return has_expired;
}

/// True if the store takes nothing new and this message is new. Waiting messages were acknowledged,
/// so none of them may be dropped for a new one. A message that the store already has is not new: a
/// shared subscription passes it from one member to another.
bool QueueBounds::is_refused(OwnerId owner, const Delivery& delivery) {
    const bool is_new = delivery.owner == 0 && !delivery.message->promised;
    const bool is_refused = owner != 0 && is_new && host_.store_takes_nothing_new();
    if (is_refused) ++counters_.dropped_queue_full;
    return is_refused;
}

DeliveryOutcome QueueBounds::find_room(Exchanges& queue, OwnerId owner, const Delivery& delivery,
                                       Millis now) {
    if (has_expired(delivery, now)) return DeliveryOutcome::dropped;
    if (is_refused(owner, delivery)) return DeliveryOutcome::refused;
    const auto room = [&] { return make_room(queue, owner, delivery); };
    return has_room(queue, owner, delivery, now, room) ? DeliveryOutcome::queued
                                                       : DeliveryOutcome::no_room;
}

DeliveryOutcome QueueBounds::find_room(Session& session, const Delivery& delivery, Millis now) {
    if (has_expired(delivery, now)) return DeliveryOutcome::dropped;
    if (is_refused(session.state.owner, delivery)) return DeliveryOutcome::refused;
    Exchanges& queue = session.state.exchanges();
    const OwnerId owner = session.state.owner;
    const auto room = [&] {
        const bool has_some = make_room(queue, owner, delivery);
        note_lost(session);
        return has_some;
    };
    return has_room(queue, owner, delivery, now, room) ? DeliveryOutcome::queued
                                                       : DeliveryOutcome::no_room;
}

/// Calls `make_room()` as often as needed. Returns false if it finds no room.
template <class MakeRoom>
bool QueueBounds::has_room(Exchanges& queue, OwnerId owner, const Delivery& delivery, Millis now,
                           MakeRoom make_room) {
    const std::size_t cost = delivery.cost();
    const Bounds bounds = bounds_of(queue);
    if (!is_full(queue, bounds, cost) && !is_short(owner, queue)) return true;
    const bool has_shrunk = drop_expired(queue, owner, now);
    bool is_room = true;
    while (is_room && is_full(queue, bounds, cost)) is_room = make_room();
    if (is_room && !has_shrunk && is_short(owner, queue)) is_room = make_room();
    return is_room;
}

/// Drops the oldest message of the user with the most bytes in the queue. In a chat, the newest
/// messages matter most, but no user may push out messages of others. Returns false if only
/// dropping the new message makes room.
bool QueueBounds::make_room(Exchanges& queue, OwnerId owner, const Delivery& delivery) {
    const Outbox& outbox = queue.outbox();
    // The same weight as in `RoomLogs`.
    if (!outbox.knows_shares()) work_ += outbox.queued() / 16;
    ++work_;
    const auto taken = queue.change_outbox(
        &Outbox::take_surplus, SenderShares::sender(*delivery.message), delivery.cost());
    if (taken) drop(owner, *taken);
    ++counters_.dropped_queue_full;
    return taken.has_value();
}

void QueueBounds::merge(Session& session, Queue messages, Bounds least, Millis now) {
    thread_.assert_here();
    Bounds bounds = bounds_of(session.state.exchanges());
    bounds.messages = std::max(bounds.messages, least.messages);
    bounds.bytes = std::max(bounds.bytes, least.bytes);
    session.state.exchanges().open_outbox(totals_).merge(std::move(messages));
    drop_surplus(session, bounds, now);
    leave_to_store();
}

/// Drops the messages that exceed the bounds. The last message may be of any size.
void QueueBounds::drop_surplus(Session& session, const Bounds& bounds, Millis now) {
    Exchanges& exchanges = session.state.exchanges();
    drop_expired(session, now);
    const Outbox& outbox = exchanges.outbox();
    if (outbox.queued() == 0) return;
    work_ += outbox.queued();
    const auto most = std::max<std::size_t>(bounds.messages, 1);
    const auto most_bytes = std::max<std::size_t>(bounds.bytes, outbox.queue().back().cost);
    Queue dropped;
    if (outbox.queued_bytes() > most_bytes)
        dropped = take_surplus(exchanges, most_bytes, Measure::bytes);
    if (outbox.queued() > most)
        dropped.splice(dropped.end(), take_surplus(exchanges, most, Measure::messages));
    for (const QueuedMessage& each : dropped) {
        drop(session.state.owner, each);
        note_lost(session);
    }
    counters_.dropped_queue_full += dropped.size();
}

std::size_t QueueBounds::drop_of(Session& inbox, SenderShares::Sender sender, std::size_t most) {
    const auto is_of_sender = [&](const QueuedMessage& each) {
        return each.sender == sender && most > 0 && most-- > 0;
    };
    Exchanges& queue = inbox.state.exchanges();
    work_ += queue.outbox().queued();
    const Queue dropped = take_queued_if(queue, is_of_sender);
    for (const QueuedMessage& each : dropped) drop(inbox.state.owner, each);
    counters_.dropped_no_inbox += dropped.size();
    return dropped.size();
}

void QueueBounds::drop_first(Exchanges& queue, OwnerId owner, std::size_t count) {
    const auto is_first = [&](const QueuedMessage&) { return count > 0 && count-- > 0; };
    for (const QueuedMessage& each : take_queued_if(queue, is_first)) drop(owner, each);
}

bool QueueBounds::drop_expired(Exchanges& queue, OwnerId owner, Millis now) {
    return take_expired(queue, owner, now) > 0;
}

bool QueueBounds::drop_expired(Session& session, Millis now) {
    const auto expired = take_expired(session.state.exchanges(), session.state.owner, now);
    if (expired > 0) history_.add(session.user.name, dropped(session, expired, "they had expired"));
    return expired > 0;
}

std::size_t QueueBounds::take_expired(Exchanges& queue, OwnerId owner, Millis now) {
    const Queue expired = queue.change_outbox(&Outbox::take_expired, now);
    for (const QueuedMessage& each : expired) {
        expired_bytes_ += each.cost;
        drop(owner, each);
    }
    work_ += expired.size();
    counters_.dropped_expired += expired.size();
    return expired.size();
}

std::size_t QueueBounds::halve(Exchanges& queue, OwnerId owner, Millis now) {
    const std::size_t most = queue.outbox().queued_bytes() / 2;
    drop_expired(queue, owner, now);
    work_ += queue.outbox().queued();
    const Queue dropped = take_surplus(queue, most, Measure::bytes);
    for (const QueuedMessage& each : dropped) drop(owner, each);
    counters_.dropped_queue_full += dropped.size();
    return dropped.size();
}

void QueueBounds::drop(OwnerId queue_owner, const QueuedMessage& message) {
    const OwnerId owner = message.owner_in(queue_owner);
    if (owner != 0) journal_.done(owner, message.stamp);
}

void QueueBounds::note_lost(Session& session) {
    if (tracer_.is_on()) tell_traces(session);
    if (session.state.exchanges().open_outbox(totals_).count_lost() == 1)
        log_limited(spdlog::level::warn,
                    "{}: queue full, dropping the oldest messages of the users who have most "
                    "messages in it",
                    session.logged());
}

void QueueBounds::tell_traces(const Session& session) {
    tracer_.tell({session.user.name, session.client, session.link},
                 [&] { return to_json(dropped(session, 1, "the queue was full")); });
}

void QueueBounds::report_lost(Session& session) {
    const auto lost = session.state.exchanges().change_outbox(&Outbox::take_lost);
    if (lost == 0) return;
    log_limited(spdlog::level::warn, "{}: {} messages were dropped from its full queue",
                session.logged(), lost);
    HistoryEvent event = dropped(session, lost, "the queue was full");
    event.is_traced = true;
    history_.add(session.user.name, event);
}

/// A shard that uses less than its share never leaves bodies to the store because of other shards.
/// A shard that uses more does so in its next tick at the latest.
bool QueueBounds::has_too_much_in_memory() const {
    const std::size_t own = totals_.bytes_in_memory();
    if (host_.memory() != MemoryState::plenty) return own > 0;
    const std::size_t even_share = settings_.queue_memory / shards_;
    if (own <= even_share) return false;
    return queued_.all() - queued_.get() + own > settings_.queue_memory;
}

void QueueBounds::tick() {
    tell_others();
    leave_to_store();
    tell_others();
}

void QueueBounds::tell_others() {
    queued_.set(totals_.bytes_in_memory());
    entries_.set(totals_.bytes_of_entries());
}

void QueueBounds::leave_to_store() {
    constexpr std::size_t grain = 64 * 1024;
    queued_.set_coarsely(totals_.bytes_in_memory(), grain);
    while (has_too_much_in_memory()) {
        const QueuedBody* oldest = totals_.bodies.oldest();
        if (!oldest || !journal_.is_committed(oldest->unit) ||
            receipts_.is_collected(oldest->message->stamp))
            return;
        totals_.bodies.leave_oldest_to_store();
    }
}

}  // namespace pulsegate
