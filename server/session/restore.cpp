#include "server/session/restore.h"

#include <algorithm>
#include <memory>
#include <random>

namespace pulsegate {

namespace {

/// Not the one before the restart: an acknowledgement that is still under way must not be taken for
/// that of another message.
std::uint16_t some_packet_id() {
    static std::minstd_rand random(std::random_device{}());
    return static_cast<std::uint16_t>(random() | 1);
}

}  // namespace

void Restore::expect(const StoredCounts& counts) {
    sessions_.reserve(counts.owners);
    presence_.reserve(std::max(counts.users, counts.owners));
    subscriptions_.reserve(counts.subscriptions);
}

/// Backends are told of those who were online when the process died, and only once.
void Restore::user(const PutUser& stored) {
    const WallMillis now = wall_now();
    const bool went_offline = presence_.restore(stored, now);
    if (!went_offline || !events_.wants(EventKind::presence)) return;
    const User& user = *presence_.find(stored.name);
    events_.presence({.time = now,
                      .user = user.name,
                      .online = false,
                      .cause = user.cause,
                      .version = user.version,
                      .client = {},
                      .silent = now - stored.last_seen});
    journal_.add_lazily(stored_presence(user));
}

Session* Restore::owner(const PutOwner& stored) {
    if (stored.kind == OwnerKind::share_group) return nullptr;
    if (stored.expiry == 0) {  // ended by the crash
        journal_.add(EndOwner{stored.owner});
        return nullptr;
    }
    const bool is_inbox = stored.kind == OwnerKind::inbox;
    User& user = presence_.find_or_create(stored.user);
    Session& session =
        sessions_.find_or_create(user, is_inbox ? std::string() : stored.client, wall_now());
    session.state.owner = stored.owner;
    session.state.set_expiry(stored.expiry);
    session.state.exchanges().begin_after(some_packet_id());
    session.terms.version = static_cast<Version>(stored.protocol);
    user.devices.push_back(session);
    if (is_inbox) inboxes_.restore(session, stored.client);
    return &session;
}

void Restore::subscription(Session& session, const PutSubscription& stored) {
    subscriptions_.restore(session, stored);
}

void Restore::incoming(Session& session, PutIncoming stored) {
    session.state.exchanges().received(sender_.waiting(), stored.packet_id);
}

void Restore::exchange(Session& session, PutExchange stored, bool released) {
    if (!released) {
        // Two are of a message that came to its client by a shared subscription, too.
        std::uint16_t& sent = exchanges_[{stored.owner, stored.stamp}];
        if (sent != 0) journal_.add_lazily(DropExchange{stored.owner, sent});
        sent = stored.packet_id;
        return;
    }
    const Delivery done{.message = {}, .qos = QoS::exactly_once, .owner = stored.owner};
    session.state.exchanges().restore(sender_.waiting(), done, stored.packet_id, true);
}

void Restore::will(Session& session, const PutWill& stored) {
    auto will = std::make_unique<StoredWill>();
    will->message = *stored.message;
    set_will_flags(will->message, stored.flags);
    will->message_expiry = stored.message_expiry;
    will->delay = stored.delay;
    will->is_stored = true;
    session.set_will(std::move(will));
}

bool Restore::waiting(Session& session, const WaitingMessage& stored, const Receiver& receiver) {
    if (exchanges_.contains({receiver.owner, stored.stamp})) return false;
    Queue message;
    message.emplace_back(stored, receiver);
    session.state.exchanges().enqueue(sender_.waiting(), std::move(message));
    return true;
}

void Restore::message(Session& session, const MessageRef& message, const Receiver& receiver) {
    const auto sent = exchanges_.find({receiver.owner, message->stamp});
    if (sent == exchanges_.end()) return;  // the second of two
    const Delivery delivery{.message = message,
                            .qos = receiver.qos,
                            .retain = receiver.retain,
                            .owner = receiver.owner,
                            .identifiers = receiver.identifiers};
    session.state.exchanges().restore(sender_.waiting(), delivery, sent->second, false);
    exchanges_.erase(sent);
}

void Restore::absence(Session& session, PutAbsence stored, Millis now) {
    const auto longest = Millis{session.state.expiry()} * 1000;
    auto left = longest;
    const bool was_here = stored.ends == 0;
    if (!was_here) left = std::clamp<Millis>(stored.ends - wall_now(), 0, longest);
    if (was_here && rooms_.has_rooms(session.user.name)) stored.place = rooms_.draw_place();
    if (was_here)
        journal_.add_lazily(PutAbsence{session.state.owner, wall_now() + longest, stored.place});
    sessions_.start_expiry(session, now - (longest - left));
    session.expiry_timer->place = stored.place;
    shared_.notify_groups(session, GroupMembership::Change::goes_away);
}

void Restore::finish() {
    // Of messages that were not stored after all.
    for (const auto& [key, packet_id] : exchanges_)
        journal_.add_lazily(DropExchange{key.first, packet_id});
    exchanges_ = {};
    presence_.finish_restoring();
}

}  // namespace pulsegate
