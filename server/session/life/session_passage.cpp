#include "server/session/life/session_passage.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/auth/access.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/replay.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/life/passed_parts.h"
#include "server/session/requests/authorizations.h"
#include "server/session/requests/subscriptions.h"
#include "server/session/rooms/rooms.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/terms/option_bits.h"

namespace pulsegate {

namespace {

constexpr std::uint32_t as_of_clock(Millis now) { return static_cast<std::uint32_t>(now); }

/// True if the next process reads the message and its packet identifier from the store.
bool is_restored(const Session& session, const Outbox::InFlight& sent) {
    const Delivery& delivery = sent.delivery;
    const bool is_own = session.state.owner != 0 && delivery.owner == session.state.owner;
    return is_own && !delivery.share && (delivery.qos == QoS::exactly_once || sent.is_noted);
}

}  // namespace

SessionPassage::SessionPassage(const ShardContext& context, const Tables& tables,
                               const DeliveryParts& delivery, const RequestParts& requests,
                               FanOut& fan_out, DelayedPublishing& delayed, SessionKeeper& keeper)
    : place_(context.place),
      sessions_(tables.sessions),
      presence_(tables.presence),
      inboxes_(delivery.inboxes),
      rooms_(delivery.rooms),
      shared_(delivery.shared),
      replay_(delivery.replay),
      packets_(delivery.packets),
      authorizations_(requests.authorizations),
      subscriptions_(requests.subscriptions),
      fan_out_(fan_out),
      delayed_(delayed),
      keeper_(keeper),
      journal_(context.journal),
      receipts_(context.receipts),
      counters_(context.counters) {}

// -- in the old process --

bool SessionPassage::settle(Millis now) {
    thread_.assert_here();
    delayed_.stop(now);
    if (journal_.is_refused()) return false;
    // Keeps the sessions of logins since the last call, too.
    if (kept_logins_ != counters_.logins) keep_passing_sessions(1);
    kept_logins_ = counters_.logins;
    packets_.store().store_in_flight(now);
    replay_.note_all_sent();
    const bool is_idle = receipts_.is_idle() && packets_.is_idle() && replay_.is_idle() &&
                         shared_.is_idle() && delayed_.is_idle() && !fan_out_.unfinished();
    if (is_idle && journal_.is_idle()) return true;
    // Commits at once. Otherwise lazy operations would wait for up to a second.
    if (is_idle && journal_.is_on()) {
        PendingReceipt receipt(receipts_);
        journal_.await(receipt.part());
        receipts_.report(receipt.close(), {}, [](const Published&) {});
    }
    return false;
}

void SessionPassage::go_on() {
    if (kept_logins_) keep_passing_sessions(0);
    kept_logins_.reset();
    delayed_.go_on();
}

/// Stores an expiry for stored sessions that end with their connections. Otherwise the next start
/// would end these sessions before they have passed.
void SessionPassage::keep_passing_sessions(std::uint32_t least_expiry) {
    sessions_.for_each([&](Session& session) {
        if (session.link && session.state.owner != 0 && session.state.expiry() == 0)
            keeper_.store_owner(session, least_expiry);
    });
}

SessionRecord SessionPassage::describe(const Session& session, Millis now) const {
    thread_.assert_here();
    const SessionState& state = session.state;
    const ClientTerms& terms = session.terms;
    SessionRecord record{.user = session.user.name,
                         .client = session.client,
                         .since = session.since,
                         .is_stored = state.owner != 0,
                         .expiry = state.expiry(),
                         .version = static_cast<std::uint8_t>(terms.version),
                         .max_packet_size = terms.max_packet_size,
                         .receive_maximum = terms.receive_maximum,
                         .wants_reasons = terms.wants_reasons,
                         .takes_reasons = terms.takes_reasons,
                         .last_packet_id = state.exchanges().last_packet_id(),
                         .ack_time = state.ack_time.byte(),
                         .password_line = authorizations_.fingerprint_of(session.password_line)};
    record.authorization = authorization_record(session.authorization.get());
    if (state.will()) record.will = will_record(*state.will());
    describe_aliases(session, record);
    record.was_member = state.was_member();
    if (!record.is_stored)
        for (const Subscription& each : state.subscriptions())
            record.subscriptions.push_back(
                {std::string(each.filter->text()), option_bits(each.options), each.identifier});
    const Outbox& outbox = state.exchanges().outbox();
    outbox.for_each_in_flight([&](const Outbox::InFlight& sent, bool waits) {
        record.in_flight.push_back(describe(session, sent, waits, now));
    });
    describe_queue(outbox, record, now);
    auto [unreleased, released] = state.exchanges().taken();
    record.unreleased = std::move(unreleased);
    record.released = std::move(released);
    if (session.replay) record.replay = replay_record(*session.replay, place_.homes.shards());
    return record;
}

DeliveryRecord SessionPassage::describe(const Session& session, const Outbox::InFlight& sent,
                                        bool waits, Millis now) const {
    DeliveryRecord record = delivery_record(sent.delivery, now, !is_restored(session, sent));
    record.packet_id = sent.packet_id;
    record.is_released = sent.released;
    record.waits = waits;
    if (sent.sent_at != 0) record.age = as_of_clock(now) - sent.sent_at;
    return record;
}

// -- in the new process --

bool SessionPassage::adopt(const SessionRecord& record, Link& link, Millis now) {
    auto authorization = auth_result(record.authorization);
    auto will = stored_will(record.will);
    const auto line = authorizations_.line_of(record.password_line);
    if (!is_sound(record) || !authorization || (record.will && !will) || !line) return false;
    Session* const session = find_or_create(record);
    if (!session) return false;
    // The device's messages from the inbox were read from the store into the inbox, so they are
    // taken out of it.
    adopt_in_flight(*session, record, now);
    adopt_queue(*session, record, now);
    session->state.exchanges().adopt(packets_.queues().totals(),
                                     {record.unreleased, record.released});
    session->state.exchanges().begin_after(record.last_packet_id);
    attach(*session, record, link);
    authorization->password_line = *line;
    authorizations_.grant(*session, *authorization, now);
    if (will) {
        will->is_stored = record.is_stored;
        sessions_.count(*will);
    }
    session->set_will(std::move(will));
    replay_.adopt(*session, replay_state(record.replay), record.replay ? record.replay->shards : 0);
    adopted_.push_back(session);
    return true;
}

/// Null if the store does not have the session, or if there is already such a session.
Session* SessionPassage::find_or_create(const SessionRecord& record) {
    User* const known = presence_.find(record.user);
    Session* const found = known ? sessions_.find(*known, record.client) : nullptr;
    if (record.is_stored) return found && found->state.owner != 0 && !found->link ? found : nullptr;
    if (found) return nullptr;
    User& user = known ? *known : presence_.find_or_create(record.user);
    if (!user.has_device()) rooms_.device_came(user.name);
    Session& session = sessions_.find_or_create(user, record.client, record.since);
    user.devices.push_back(session);
    if (record.was_member) session.state.note_membership();
    for (const SubscriptionRecord& each : record.subscriptions)
        subscriptions_.adopt(
            session,
            {.filter = each.filter, .options = each.options, .identifier = each.identifier});
    return &session;
}

/// Connects the session as a login does, but tells nobody.
void SessionPassage::attach(Session& session, const SessionRecord& record, Link& link) {
    sessions_.stop_expiry(session);
    session.since = record.since;
    session.link = &link;
    link.session = &session;
    session.terms = terms_of(record);
    session.state.ack_time = AckTime::of(record.ack_time);
    adopt_aliases(session, record);
    session.state.set_expiry(record.expiry);
    if (record.is_stored) {
        if (record.expiry == 0) keeper_.store_owner(session, 0);
        journal_.returned(session.state.owner);
        shared_.notify_groups(session, GroupMembership::Change::comes_back);
    }
    presence_.arrive(session.user, session, wall_now());
}

void SessionPassage::adopt_in_flight(Session& session, const SessionRecord& record, Millis now) {
    std::vector<Outbox::Moved> moved;
    std::vector<Stamp> from_inbox;
    for (const DeliveryRecord& each : record.in_flight) {
        moved.push_back({.delivery = delivery_of(each, now),
                         .packet_id = each.packet_id,
                         .is_released = each.is_released,
                         .waits = each.waits});
        if (each.age) moved.back().sent_at = std::max(as_of_clock(now) - *each.age, 1u);
        if (each.is_released) moved.back().delivery.owner = session.state.owner;
        if (each.is_from_inbox) from_inbox.push_back(each.stamp);
    }
    std::ranges::sort(from_inbox);
    inboxes_.take_out(session.user, from_inbox);
    Exchanges& exchanges = session.state.exchanges();
    if (!moved.empty()) exchanges.open_outbox(packets_.queues().totals());
    exchanges.change_outbox(&Outbox::adopt, std::move(moved));
}

/// A stored session's queue is restored as if all of it might have been sent. This corrects it.
void SessionPassage::adopt_queue(Session& session, const SessionRecord& record, Millis now) {
    Exchanges& exchanges = session.state.exchanges();
    std::vector<Stamp> perhaps_sent;
    for (const DeliveryRecord& each : record.queue) {
        if (each.perhaps_sent) perhaps_sent.push_back(each.stamp);
        if (each.message)
            exchanges.open_outbox(packets_.queues().totals())
                .enqueue(delivery_of(each, now), each.perhaps_sent);
    }
    if (!record.is_stored) return;
    std::ranges::sort(perhaps_sent);
    exchanges.change_outbox(&Outbox::set_perhaps_sent, perhaps_sent);
    const bool is_noted = exchanges.outbox().next_queued() && perhaps_sent.empty();
    if (is_noted) journal_.add_lazily(DropExchange{session.state.owner, 0});  // see Restore
}

/// The links send nothing yet, because the other process may still continue with these clients.
void SessionPassage::finish(Millis now) {
    for (Session* const session : std::exchange(adopted_, {})) {
        inboxes_.move_to_device(session->user, now);
        if (session->state.exchanges().outbox().unsent() || session->replay)
            session->link->notify_when_drained();
    }
}

}  // namespace pulsegate
