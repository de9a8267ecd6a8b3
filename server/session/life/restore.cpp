#include "server/session/life/restore.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>

namespace pulsegate {

namespace {

/// A random identifier. It differs from the one before the restart, so that a late acknowledgement
/// is not taken for the acknowledgement of another message.
std::uint16_t some_packet_id() {
    static std::minstd_rand random(std::random_device{}());
    return static_cast<std::uint16_t>(random() | 1);
}

/// Marks an exchange that is restored. A real packet identifier is never 0.
constexpr std::uint16_t restored = 0;

Delivery delivery_of(const MessageRef& message, const Receiver& receiver) {
    return {.message = message,
            .qos = receiver.qos,
            .retain = receiver.retain,
            .owner = receiver.owner,
            .identifiers = receiver.identifiers,
            .share = receiver.share};
}

}  // namespace

/// Reserves tables for all sessions, because it is not known yet which ones can be packed. Unused
/// parts of a table take no memory.
void Restore::expect(const StoredCounts& counts) {
    sessions_.reserve(counts.owners);
    presence_.reserve(std::max(counts.users, counts.owners));
    subscriptions_.reserve(counts.subscriptions);
    packed_.reserve(counts.subscriptions);
}

/// The user's row does not change: if the process dies again meanwhile, the next start awaits the
/// user, too. Older versions have not stored the limit.
std::optional<Millis> Restore::user(const PutUser& stored, Millis now) {
    const Millis limit = stored.limit != 0 ? stored.limit : settings_.idle_timeout;
    const Millis until = now + limit;
    presence_.restore(stored, tick_after(until));
    if (!means_online(static_cast<Cause>(stored.cause))) return std::nullopt;
    return until;
}

bool Restore::packed(const StoredSession& stored, Millis now) {
    PutSessionExpiry expiry = stored.session_expiry;
    if (expiry.position != 0) return false;
    const Tick ends = tick_after(now + time_left(expiry, stored.expiry));
    if (!packed_.may_restore(stored.texts, ends, tick_at(now))) return false;
    note_sent_before(stored.owner, stored.sent_before);
    if (stored.session_expiry.ends == 0)
        journal_.add_lazily(PutSessionExpiry{stored.owner, expiry.ends, expiry.position});
    auto* const record = PackedRecord::make(stored.texts, stored.messages, ends);
    record->device_since = wall_now();
    record->owner = stored.owner;
    record->expiry = stored.expiry;
    record->identifier = stored.identifier;
    record->last_packet_id = some_packet_id();
    record->options = stored.options;
    record->version = static_cast<Version>(stored.protocol);
    packed_.restore(*record, tick_at(now));
    return true;
}

Session& Restore::unpacked(const StoredSession& stored) {
    Session& session = *owner({.owner = stored.owner,
                               .user = std::string(stored.texts.user),
                               .client = std::string(stored.texts.client),
                               .expiry = stored.expiry,
                               .protocol = stored.protocol});
    if (!stored.texts.filter.empty())
        subscription(session, {.owner = stored.owner,
                               .filter = std::string(stored.texts.filter),
                               .options = stored.options,
                               .identifier = stored.identifier});
    Queue messages;
    for (const PackedMessage& each : stored.messages)
        messages.emplace_back(each.head, each.expires);
    if (!messages.empty()) outbox_of(session).enqueue(std::move(messages));
    return session;
}

Session* Restore::owner(const PutOwner& stored) {
    const bool is_inbox = stored.kind == OwnerKind::inbox;
    User& user = presence_.restore(stored.user);
    Session& session =
        sessions_.find_or_create(user, is_inbox ? std::string() : stored.client, wall_now());
    session.state.owner = stored.owner;
    session.state.set_expiry(stored.expiry);
    session.state.exchanges().begin_after(some_packet_id());
    session.terms.version = static_cast<Version>(stored.protocol);
    user.devices.push_back(session);
    if (is_inbox) inboxes_.restore(session);
    return &session;
}

void Restore::retired(const PutOwner& stored, const std::set<Stamp>& under_way, Millis now) {
    // These messages are marked as done, because the next start will not know which messages were
    // under way.
    for (const Stamp stamp : under_way) journal_.done(stored.owner, stamp);
    if (stored.kind == OwnerKind::retired)
        shared_.restore_retired(stored.owner, now);
    else
        shared_.retire(stored.owner, now);
}

void Restore::subscription(Session& session, const PutSubscription& stored) {
    subscriptions_.restore(session, stored);
}

void Restore::incoming(Session& session, PutIncoming stored) {
    session.state.exchanges().received(packets_.queues().totals(), stored.packet_id);
}

void Restore::exchange(Session& session, PutExchange stored, bool released) {
    if (!released) {
        // A client may have got a message twice: by its own subscription and by a shared one. Then
        // both exchanges have the same stamp. The one of QoS 2 is kept, because it must not be
        // delivered twice.
        Sent& sent = exchanges_[{stored.owner, stored.stamp}];
        Sent other{stored.packet_id, stored.qos};
        if (other.qos >= sent.qos) std::swap(sent, other);
        if (other.packet_id != 0) journal_.add_lazily(DropExchange{stored.owner, other.packet_id});
        return;
    }
    const Delivery done{.message = {}, .qos = QoS::exactly_once, .owner = stored.owner};
    outbox_of(session).restore(done, stored.packet_id, true);
}

void Restore::will(Session& session, const PutWill& stored) {
    auto will = std::make_unique<StoredWill>();
    will->message = *stored.message;
    set_will_flags(will->message, stored.flags);
    will->message_expiry = stored.message_expiry;
    will->delay = stored.delay;
    will->is_stored = true;
    sessions_.count(*will);
    session.set_will(std::move(will));
}

Outbox& Restore::outbox_of(Session& session) {
    return session.state.exchanges().open_outbox(packets_.queues().totals());
}

bool Restore::waiting(Session& session, const WaitingMessage& stored, const Receiver& receiver,
                      Millis expires, SentBefore& sent_before) {
    if (is_under_way(stored.stamp, receiver)) return false;
    Queue message;
    message.emplace_back(stored, receiver, expires);
    message.back().perhaps_sent = sent_before.includes(receiver, stored.stamp);
    outbox_of(session).enqueue(std::move(message));
    return true;
}

void Restore::message(Session& session, const MessageRef& message, const Receiver& receiver,
                      SentBefore& sent_before) {
    Delivery delivery = delivery_of(message, receiver);
    const auto sent = exchanges_.find({receiver.owner, message->stamp});
    if (receiver.share) session.state.note_membership();
    if (sent == exchanges_.end()) {
        Outbox& outbox = outbox_of(session);
        outbox.enqueue(delivery, sent_before.includes(receiver, message->stamp));
        outbox.order_last();
        return;
    }
    delivery.qos = sent->second.qos;
    const std::uint16_t packet_id = std::exchange(sent->second.packet_id, restored);
    if (packet_id != restored)  // restored: this is the second copy of the message
        outbox_of(session).restore(std::move(delivery), packet_id, false);
}

void Restore::message(const MessageRef& message, const Receiver& receiver) {
    shared_.restore(delivery_of(message, receiver));
}

/// How long the session is kept from now on. If its client was connected, its absence begins now.
Millis Restore::time_left(PutSessionExpiry& stored, std::uint32_t expiry) {
    const auto longest = Millis{expiry} * 1000;
    const WallMillis wall = wall_now();
    if (stored.ends == 0) {
        stored.ends = wall + longest;
        return longest;
    }
    return std::clamp<Millis>(stored.ends - wall, 0, longest);
}

/// Otherwise the next start would treat these messages as unsent, because the client is away now.
void Restore::note_sent_before(OwnerId owner, SentBefore sent_before) {
    if (sent_before.is_any && sent_before.was_connected)
        journal_.add_lazily(PutExchange{
            .owner = owner, .packet_id = 0, .stamp = next_stamp(), .qos = QoS::at_least_once});
    else if (!sent_before.is_any && sent_before.upto != 0)
        journal_.add_lazily(DropExchange{.owner = owner, .packet_id = 0});
}

void Restore::session_expiry(Session& session, PutSessionExpiry stored, SentBefore sent_before,
                             Millis now) {
    note_sent_before(session.state.owner, sent_before);
    const auto longest = Millis{session.state.expiry()} * 1000;
    const bool was_here = stored.ends == 0;
    if (was_here) note_position(session, stored);
    const auto left = time_left(stored, session.state.expiry());
    if (was_here)
        journal_.add_lazily(PutSessionExpiry{session.state.owner, stored.ends, stored.position});
    sessions_.start_expiry(session, now - (longest - left));
    session.expiry_timer->position = stored.position;
    shared_.notify_groups(session, GroupMembership::Change::goes_away);
}

/// The session expiry is stored without an end, so that its time does not begin for the next start
/// either.
void Restore::awaited(Session& session, PutSessionExpiry stored, SentBefore sent_before,
                      Millis until) {
    note_sent_before(session.state.owner, sent_before);
    note_position(session, stored);
    journal_.add_lazily(
        PutSessionExpiry{.owner = session.state.owner, .position = stored.position});
    sessions_.await(session, until);
    session.expiry_timer->position = stored.position;
    shared_.notify_groups(session, GroupMembership::Change::goes_away);
}

/// An orderly stop has stored the position already.
void Restore::note_position(const Session& session, PutSessionExpiry& expiry) {
    if (expiry.position == 0 && rooms_.has_rooms(session.user.name))
        expiry.position = rooms_.position_now();
}

/// Restores an inbox's expiry. It began with the latest message, at the time of its stamp. The
/// stamp may be later than that if the clock was set back. All other restarts of the expiry are
/// stored.
void Restore::inbox_expiry(Session& inbox, PutSessionExpiry stored, Millis now) {
    inboxes_.find_handed_out(inbox);
    const auto longest = Millis{inbox.state.expiry()} * 1000;
    const Queue& queue = inbox.state.exchanges().outbox().queue();
    if (!queue.empty())
        stored.ends =
            std::max(stored.ends, static_cast<WallMillis>(time_of(queue.back().stamp)) + longest);
    if (inbox.user.has_device()) stored.ends = 0;  // the inbox ends after the device's session
    sessions_.start_expiry(inbox, now - (longest - time_left(stored, inbox.state.expiry())));
}

void Restore::finish() {
    // These exchanges belong to messages that were not stored.
    for (const auto& [key, sent] : exchanges_)
        if (sent.packet_id != restored)
            journal_.add_lazily(DropExchange{key.first, sent.packet_id});
    exchanges_ = {};
    presence_.finish_restoring();
}

}  // namespace pulsegate
