#include "server/session/sending/delivery_store.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace pulsegate {

namespace {

/// If more answers than this wait, messages are stored at once instead of waiting for
/// acknowledgements. Otherwise publishers to clients that never acknowledge would use up the room
/// for all answers.
constexpr std::size_t answers_with_patience = 4096;

/// The time between calls that store overdue messages.
constexpr Millis calls_apart = 10;

/// The most messages in flight that one round looks at in order to store them.
constexpr std::size_t stored_a_turn = 8192;

/// How many packet identifiers are stored at a time. Without them, a message is also sent again
/// after a crash, but with another identifier.
constexpr int notes_a_tick = 4096;

}  // namespace

void DeliveryStore::sent(Session& session, Outbox::InFlight& sent, PartSource& parts, Millis now) {
    const Delivery& delivery = sent.delivery;
    const bool waits_too_much = receipts_.size() >= answers_with_patience;
    const Millis patience = waits_too_much ? 0 : session.state.ack_time.patience();
    note_sent(session, sent, now);
    if (delivery.qos == QoS::exactly_once || patience == 0)
        store(session, sent.delivery, parts.part(), now);
    note_later(session, sent);
    if (delivery.owner == session.state.owner || delivery.message->stamp == 0) return;
    sent.unstored = std::make_unique<Unstored>(session, parts.part(), now + patience);
    unstored_.add(*sent.unstored);
    call_store_overdue(sent.unstored->due);
}

void DeliveryStore::sent_from_queue(Session& session, Outbox::InFlight& sent, Millis now) {
    if (sent.delivery.from_inbox) own(session, sent.delivery, now);
    if (sent.again) return;
    note_sent(session, sent, now);
    note_later(session, sent);
}

/// Asks for one call for many messages, because each call wakes the shard and may find that all
/// messages are acknowledged.
void DeliveryStore::call_store_overdue(Millis due) {
    const Millis when = (due + calls_apart - 1) / calls_apart * calls_apart;
    if (next_overdue_call_ != 0 && next_overdue_call_ <= when) return;
    next_overdue_call_ = when;
    surroundings_.call_store_overdue(when);
}

void DeliveryStore::note_sent(const Session& session, Outbox::InFlight& sent, Millis now) {
    const bool is_measured = session.state.owner != 0 && sent.delivery.qos == QoS::at_least_once;
    if (is_measured) sent.sent_at = std::max(static_cast<std::uint32_t>(now), 1u);
}

void DeliveryStore::acknowledged(Session& session, std::uint16_t packet_id, Millis now) {
    if (session.state.owner == 0) return;
    const auto sent_at = session.state.exchanges().outbox().sent_at(packet_id);
    if (sent_at != 0) session.state.ack_time.add(static_cast<std::uint32_t>(now) - sent_at);
}

void DeliveryStore::store(Session& session, Delivery& delivery, PartRef part, Millis now) {
    if (session.state.owner == 0 || delivery.owner == session.state.owner) return;
    store_unstored(session, now);
    store_for(session.state.owner, delivery, PartSource(std::move(part)), now);
}

void DeliveryStore::store_for(OwnerId owner, Delivery& delivery, PartSource parts, Millis now) {
    const bool is_kept = owner != 0 && delivery.qos != QoS::at_most_once;
    if (!is_kept || delivery.message->stamp == 0 || delivery.owner == owner) return;
    Receiver receiver{owner, delivery.qos, delivery.retain, delivery.identifiers, delivery.share};
    const PartRef part = parts.part();
    if (part && part->collects()) {
        // Flushes first, because another shard must not store this message before earlier messages
        // to the owner. While the store refuses, there is no flush: it would take refused
        // subscriptions back at once, and one of them may be the subscription that is being
        // visited.
        if (part->is_for_another_shard() && !journal_.is_refused()) journal_.flush();
        part->collect(std::move(receiver));
        // Another shard stores the message. It must wait until the owner is stored, and until the
        // store knows that its client is back: see Logins::send_connack_when_stored.
        if (journal_.is_new(owner) || journal_.has_returns()) journal_.await_retries(part);
    } else {
        journal_.put(delivery.message, std::move(receiver), part, now);
    }
    drop(delivery);  // another member of the group had the message
    delivery.owner = owner;
}

void DeliveryStore::store_unstored(Session& session, Millis now) {
    const auto store = [&](Outbox::InFlight& entry) {
        const auto unstored = std::move(entry.unstored);
        store_for(session.state.owner, entry.delivery, PartSource(unstored->part), now);
        note_later(session, entry);
    };
    session.state.exchanges().change_outbox(
        [&](Outbox& outbox) { outbox.for_each_unstored(store); });
}

/// Notes that the packet identifier must be stored. Most messages are acknowledged before the next
/// tick, and cost no row.
void DeliveryStore::note_later(const Session& session, Outbox::InFlight& sent) {
    const Delivery& delivery = sent.delivery;
    const bool is_own = delivery.owner != 0 && delivery.owner == session.state.owner;
    if (is_own && delivery.qos == QoS::at_least_once) totals_.to_note.push_back(sent);
}

void DeliveryStore::note_identifiers(Session& session) {
    const auto note = [&](Outbox::InFlight& entry) { Outbox::note(entry, journal_); };
    session.state.exchanges().change_outbox([&](Outbox& outbox) { outbox.for_each_to_note(note); });
}

void DeliveryStore::tick() {
    if (journal_.is_refused()) return;
    for (int room = notes_a_tick; room > 0 && !totals_.to_note.empty(); --room)
        Outbox::note(totals_.to_note.front(), journal_);
}

bool DeliveryStore::store_overdue(Millis now) {
    thread_.assert_here();
    next_overdue_call_ = 0;
    std::size_t left = stored_a_turn;
    while (Unstored* const overdue = left > 0 ? unstored_.due(now) : nullptr) {
        Session& session = overdue->session;
        left -= std::min(left, session.state.exchanges().outbox().in_flight() + 1);
        session.state.ack_time.add_late();
        store_unstored(session, now);
    }
    if (const auto next = unstored_.next()) call_store_overdue(std::max(*next, now));
    return left > 0;
}

void DeliveryStore::store_in_flight(Millis now) {
    thread_.assert_here();
    while (Unstored* const each = unstored_.due(now + AckDeadlines::span))
        store_unstored(each->session, now);
    while (!totals_.to_note.empty()) Outbox::note(totals_.to_note.front(), journal_);
}

void DeliveryStore::drop(const Delivery& delivery) { journal_.done(delivery); }

/// What is from the inbox keeps its place in the store. At QoS 2 the session has it there as well,
/// for the client's packet identifier must be stored with the message; see Restore::inbox_expiry.
void DeliveryStore::own(Session& session, Delivery& delivery, Millis now) {
    const OwnerId owner = session.state.owner;
    if (delivery.qos != QoS::exactly_once || owner == 0 || delivery.owner == owner) return;
    const OwnerId inbox = std::exchange(delivery.owner, 0);  // which keeps its copy
    store_for(owner, delivery, PartSource(), now);
    delivery.inbox = inbox;
}

}  // namespace pulsegate
