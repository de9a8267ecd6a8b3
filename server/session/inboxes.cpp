#include "server/session/inboxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "server/base/log.h"

namespace pulsegate {

namespace {

Session& session_of(Device& device) { return static_cast<Session&>(device); }

}  // namespace

Session* Inboxes::find(const User& user) const {
    return creators_.empty() ? nullptr : sessions_.find(user, {});
}

Inboxes::Place Inboxes::receiver(std::string_view name, const User* user, std::uint64_t creator,
                                 Millis now) {
    const bool may_wait = settings_.inbox_expiry != 0 && !name.empty();
    if (!may_wait || (user && user->has_device())) return {};
    if (!place_.is_home_of(name)) return {};
    Session* inbox = user ? find(*user) : nullptr;
    if (!inbox) inbox = create_if_room(name, creator, now);
    if (!inbox) return {.has_room = false};
    sessions_.stop_expiry(*inbox);
    sessions_.start_expiry(*inbox, now);  // in the store, the message's stamp says so
    return {.inbox = inbox};
}

Session& Inboxes::open(User& user, std::uint64_t creator, Millis now) {
    Session* const known = find(user);
    Session& inbox = known ? *known : create(user, creator);
    begin_anew(inbox, now);
    return inbox;
}

/// The store is told of a later end, so that it knows the next one before this one has come.
void Inboxes::begin_anew(Session& inbox, Millis now) {
    constexpr WallMillis ahead = 60'000;
    sessions_.stop_expiry(inbox);
    sessions_.start_expiry(inbox, now);
    if (inbox.state.owner == 0) return;
    const auto time = WallMillis{inbox.state.expiry()} * 1000;
    journal_.add_lazily(PutAbsence{.owner = inbox.state.owner, .ends = wall_now() + time + ahead});
}

Session* Inboxes::create_if_room(std::string_view name, std::uint64_t creator, Millis now) {
    if (reached_limit(creator)) end_expired(now);
    if (const auto limit = reached_limit(creator)) {
        counters_.count(*limit);
        ++counters_.dropped_no_inbox;
        log_limited(spdlog::level::warn,
                    "message to the inbox of user {} dropped: the user has no session, and "
                    "max-inboxes or max-inboxes-per-user is reached",
                    in_quotes(name));
        return nullptr;
    }
    return &create(presence_.find_or_create(name), creator);
}

Session& Inboxes::create(User& user, std::uint64_t creator) {
    Session& inbox = sessions_.find_or_create(user, {}, wall_now());
    inbox.state.set_expiry(static_cast<std::uint32_t>(settings_.inbox_expiry / 1000));
    user.devices.push_back(inbox);
    count(inbox, creator);
    if (!journal_.is_on()) return inbox;
    inbox.state.owner = journal_.next_owner();
    journal_.add(PutOwner{.owner = inbox.state.owner,
                          .kind = OwnerKind::inbox,
                          .user = user.name,
                          .client = fmt::format("{:x}", creator),
                          .expiry = inbox.state.expiry(),
                          .protocol = static_cast<std::uint8_t>(inbox.terms.version)});
    return inbox;
}

void Inboxes::count(Session& inbox, std::uint64_t creator) {
    creators_[&inbox] = creator;
    ++created_[creator];
}

/// Those of earlier versions have not stored who it was, and count as the gateway's own.
void Inboxes::restore(Session& inbox, std::string_view creator) {
    std::uint64_t sender = 0;
    std::from_chars(creator.data(), creator.data() + creator.size(), sender, 16);
    count(inbox, sender);
}

/// Ends those in which everything has expired. It looks at all, and therefore once a second.
void Inboxes::end_expired(Millis now) {
    if (std::exchange(ended_expired_, tick_at(now)) == tick_at(now)) return;
    std::vector<Session*> empty;
    for (const auto& [inbox, creator] : creators_) {
        sender_.drop_expired(*inbox, now);
        if (!inbox->state.exchanges().outbox()) empty.push_back(inbox);
    }
    for (Session* inbox : empty) end_if_done_(inbox->user, now);
}

/// That forbids another inbox, if any does.
std::optional<Limit> Inboxes::reached_limit(std::uint64_t creator) const {
    const auto share = [&](std::size_t of_all) { return of_all / place_.count + 1; };
    if (creators_.size() >= share(settings_.max_inboxes)) return Limit::max_inboxes;
    const auto created = created_.find(creator);
    const bool gateways_own = creator == 0;
    if (gateways_own || created == created_.end()) return std::nullopt;
    // One message to a large room must not take the inboxes of everybody else.
    const std::size_t most =
        creator == by_rooms ? settings_.max_inboxes / 2 : settings_.max_inboxes_per_user;
    if (created->second < share(most)) return std::nullopt;
    return Limit::max_inboxes_per_user;
}

/// What is lent keeps its place in the store.
void Inboxes::lend(User& user, Millis now) {
    Session* const inbox = find(user);
    if (!inbox || !user.online()) return;
    Session& device = session_of(user.devices.front());
    Queue messages = inbox->state.exchanges().take_queue();
    if (!messages.empty()) begin_anew(*inbox, now);
    for (QueuedMessage& each : messages) each.lend(true, inbox->state.owner);
    device.state.exchanges().merge(sender_.waiting(), std::move(messages));
    sender_.send_waiting(device, now);
}

void Inboxes::take_back(Session& session, Millis now) {
    Session* const inbox = session.is_inbox() ? nullptr : find(session.user);
    if (!inbox) return;
    begin_anew(*inbox, now);
    Exchanges& kept = inbox->state.exchanges();
    Queue messages = session.state.exchanges().take_lent();
    for (QueuedMessage& each : messages) each.lend(false, inbox->state.owner);
    kept.merge(sender_.waiting(), std::move(messages));
}

Session* Inboxes::done(const User& user) const {
    Session* const inbox = find(user);
    if (!inbox || inbox->state.exchanges().outbox()) return nullptr;
    for (const Device& device : user.devices) {
        const auto* outbox = static_cast<const Session&>(device).state.exchanges().outbox();
        if (outbox && outbox->has_lent()) return nullptr;
    }
    return inbox;
}

void Inboxes::forget(Session& inbox) {
    const auto found = creators_.find(&inbox);
    if (found == creators_.end()) return;
    const auto created = created_.find(found->second);
    creators_.erase(found);
    if (created != created_.end() && --created->second == 0) created_.erase(created);
}

}  // namespace pulsegate
