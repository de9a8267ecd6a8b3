#include "server/session/inboxes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/base/log.h"

namespace pulsegate {

namespace {

bool is_lent(const Delivery& delivery) { return delivery.lent && delivery.message; }

Session& session_of(Device& device) { return static_cast<Session&>(device); }

}  // namespace

Session* Inboxes::find(const User& user) const {
    return creators_.empty() ? nullptr : sessions_.find(user, {});
}

Session* Inboxes::receiver(std::string_view name, const User* user, const Message& message,
                           Millis now) {
    const bool may_wait = settings_.inbox_expiry != 0 && !name.empty();
    if (!may_wait || !place_.is_home_of(name)) return nullptr;
    const auto is_device = [](const Device& device) {
        return !static_cast<const Session&>(device).is_inbox();
    };
    if (user && std::ranges::any_of(user->devices, is_device)) return nullptr;
    Session* inbox = user ? find(*user) : nullptr;
    if (!inbox) inbox = create(name, message);
    if (!inbox) return nullptr;
    sessions_.stop_expiry(*inbox);
    sessions_.start_expiry(*inbox, now);
    return inbox;
}

Session* Inboxes::create(std::string_view name, const Message& message) {
    if (!has_room(message)) {
        ++counters_.dropped_no_inbox;
        log_limited(spdlog::level::warn,
                    "message to the inbox of user {} dropped: the user has no session, and "
                    "max-inboxes or max-inboxes-per-user is reached",
                    quoted(name));
        return nullptr;
    }
    User& user = presence_.find_or_create(name);
    Session& inbox = sessions_.find_or_create(user, {}, wall_now());
    inbox.state.set_expiry(static_cast<std::uint32_t>(settings_.inbox_expiry / 1000));
    user.devices.push_back(inbox);
    creators_[&inbox] = message.sender;
    ++created_[message.sender];
    if (!journal_.is_on()) return &inbox;
    inbox.state.owner = journal_.next_owner();
    journal_.add(PutOwner{.owner = inbox.state.owner,
                          .kind = OwnerKind::inbox,
                          .user = user.name,
                          .expiry = inbox.state.expiry(),
                          .protocol = static_cast<std::uint8_t>(inbox.terms.version)});
    return &inbox;
}

bool Inboxes::has_room(const Message& message) {
    const auto share = [&](std::size_t of_all) { return of_all / place_.count + 1; };
    if (creators_.size() >= share(settings_.max_inboxes)) {
        counters_.count(Limit::max_inboxes);
        return false;
    }
    const auto created = created_.find(message.sender);
    const bool gateways_own = message.sender == 0;
    if (gateways_own || created == created_.end()) return true;
    if (created->second < share(settings_.max_inboxes_per_user)) return true;
    counters_.count(Limit::max_inboxes_per_user);
    return false;
}

/// What is lent keeps its place in the store. At QoS 2 that would not do: the device's packet
/// identifier must be stored with the message.
void Inboxes::lend(User& user, Millis now) {
    Session* const inbox = find(user);
    if (!inbox || !user.online()) return;
    Session& device = session_of(user.devices.front());
    Exchanges& exchanges = device.state.exchanges();
    const auto all = [](const Delivery&, bool) { return true; };
    for (Delivery& delivery : inbox->state.exchanges().take_if(all)) {
        if (delivery.qos == QoS::exactly_once)
            sender_.store_for(device.state.owner, delivery, DebtSource(), now);
        delivery.lent = delivery.owner != device.state.owner || delivery.owner == 0;
        exchanges.enqueue(sender_.waiting(), delivery);
    }
    sender_.send_waiting(device, now);
}

void Inboxes::take_back(Session& session) {
    Session* const inbox = session.is_inbox() ? nullptr : find(session.user);
    if (!inbox) return;
    Exchanges& kept = inbox->state.exchanges();
    const auto younger = kept.take_if([](const Delivery&, bool) { return true; });
    auto back = session.state.exchanges().take_if(
        [](const Delivery& delivery, bool) { return is_lent(delivery); });
    back.insert(back.end(), younger.begin(), younger.end());
    for (Delivery& delivery : back) {
        delivery.lent = false;
        kept.enqueue(sender_.waiting(), delivery);
    }
}

Session* Inboxes::done(const User& user) const {
    Session* const inbox = find(user);
    if (!inbox || inbox->state.exchanges().outbox()) return nullptr;
    for (const Device& device : user.devices) {
        const auto* outbox = static_cast<const Session&>(device).state.exchanges().outbox();
        if (outbox && outbox->any_of(is_lent)) return nullptr;
    }
    return inbox;
}

void Inboxes::forget(const Session& inbox) {
    const auto found = creators_.find(&inbox);
    if (found == creators_.end()) return;
    const auto created = created_.find(found->second);
    creators_.erase(found);
    if (created != created_.end() && --created->second == 0) created_.erase(created);
}

}  // namespace pulsegate
