#include "server/session/delivery/inboxes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/message/topics.h"

namespace pulsegate {

namespace {

/// The number of checks for expired messages in an inbox that count as one unit of work.
constexpr std::size_t looks_of_a_work = 4;

Session& session_of(Device& device) { return static_cast<Session&>(device); }

}  // namespace

Inboxes::Inboxes(const ShardContext& context, const Tables& tables, PacketSender& packets)
    : settings_(context.settings),
      place_(context.place),
      host_(context.host),
      accounts_(context.host.totals().inboxes),
      sessions_(tables.sessions),
      presence_(tables.presence),
      packets_(packets),
      journal_(context.journal),
      counters_(context.counters),
      senders_(context.host.totals().inboxes) {
    packets_.queues().totals().inbox_senders = &senders_;
}

/// The sessions outlive this object, and their queues would report messages to it. So the queues
/// are cleared.
Inboxes::~Inboxes() {
    for (const auto& [outbox, inbox] : inboxes_) inbox->state.exchanges().clear();
}

Session* Inboxes::find(const User& user) const {
    return inboxes_.empty() ? nullptr : sessions_.find(user, {});
}

Inboxes::Found Inboxes::receiver(std::string_view name, const User* user, const Message& message,
                                 Millis now) {
    const bool may_wait = settings_.inbox_expiry != 0 && !name.empty();
    if (!may_wait || (user && user->has_device())) return {};
    if (!place_.is_home_of(name)) return {};
    Found found;
    auto limit = limit_reached(found, user, message);
    if (limit) {
        end_expired_of(SenderShares::sender(message), now);
        limit = limit_reached(found, user, message);
    }
    if (!limit && !found.inbox && journal_.takes_no_new_owners()) {
        ++counters_.dropped_no_inbox;
        return {.has_room = false};
    }
    if (!limit && !found.inbox) limit = open_one(name, SenderShares::sender(message), now);
    if (limit) {
        refuse(name, *limit);
        return {.has_room = false};
    }
    if (!found.inbox) found.inbox = &create(presence_.find_or_create(name));
    sessions_.stop_expiry(*found.inbox);
    sessions_.start_expiry(*found.inbox, now);  // not stored: the message's stamp shows the time
    return found;
}

/// Returns the sender's limit that forbids the message. If none does, charges the message to the
/// sender.
std::optional<Limit> Inboxes::limit_reached(Found& found, const User* user,
                                            const Message& message) {
    found.inbox = user ? find(*user) : nullptr;
    const auto sender = SenderShares::sender(message);
    const bool is_in =
        found.inbox && senders_.takes_part(found.inbox->state.exchanges().outbox(), sender);
    InboxAccounts::Share more{.bytes = message.cost()};
    if (!is_in) more = {.inboxes = 1, .bytes = more.bytes + InboxSenders::bytes_of_inbox};
    const InboxAccounts::Share most{.inboxes = settings_.max_inboxes_per_user,
                                    .bytes = settings_.max_inbox_bytes_per_user};
    const auto limit = accounts_.claim(sender, more, most);
    if (!limit) found.claim.emplace(accounts_, sender, more);
    return limit;
}

void Inboxes::refuse(std::string_view name, Limit limit) {
    counters_.count(limit);
    ++counters_.dropped_no_inbox;
    log_limited(spdlog::level::warn,
                "message to the inbox of user {} dropped: the user has no session, and {} is "
                "reached",
                LoggedUser{name}, limit_names[static_cast<std::size_t>(limit)]);
}

/// Counts one more inbox, or returns the limit that forbids it.
std::optional<Limit> Inboxes::open_one(std::string_view name, InboxSenders::Sender sender,
                                       Millis now) {
    // A waiting message of an earlier version may have one.
    if (name.size() > longest_name) return Limit::max_inboxes;
    const bool grows = may_grow(sender);
    if (grows && accounts_.open(settings_.max_inboxes)) return std::nullopt;
    const Limit limit = grows ? Limit::max_inboxes : Limit::memory_budget;
    end_expired(now);
    if (grows && accounts_.open(settings_.max_inboxes)) return std::nullopt;
    if (make_place(sender, limit, now) && accounts_.open(settings_.max_inboxes))
        return std::nullopt;
    return limit;
}

/// May the sender get one more inbox? While memory is scarce, only a sender without any inbox may.
bool Inboxes::may_grow(InboxSenders::Sender sender) const {
    const auto memory = host_.memory();
    return memory == MemoryState::plenty ||
           (memory == MemoryState::scarce && !senders_.has_any(sender));
}

/// Makes room for a sender with few inboxes by ending an inbox of senders with many. Never ends the
/// inbox of a user with a device.
bool Inboxes::make_place(InboxSenders::Sender sender, Limit limit, Millis now) {
    const auto may_end = [&](const Outbox& outbox) {
        return !inboxes_.find(&outbox)->second->user.has_device();
    };
    const Outbox* const surplus = senders_.surplus(sender, may_end);
    if (!surplus) return false;
    end_(*inboxes_.find(surplus)->second,
         limit == Limit::max_inboxes
             ? "max-inboxes is reached, and its senders have most"
             : "memory-budget is nearly used up, and its senders have most inboxes",
         now);
    return true;
}

Session& Inboxes::open(User& user, Millis now) {
    Session* inbox = find(user);
    if (!inbox) {
        accounts_.open_anyway();
        inbox = &create(user);
    }
    begin_anew(*inbox, now);
    return *inbox;
}

/// Restarts the inbox's expiry. The stored end is later by a minute, so that the store gets the
/// next one before it has passed.
void Inboxes::begin_anew(Session& inbox, Millis now) {
    constexpr WallMillis ahead = 60'000;
    sessions_.stop_expiry(inbox);
    sessions_.start_expiry(inbox, now);
    if (inbox.state.owner == 0) return;
    const auto time = WallMillis{inbox.state.expiry()} * 1000;
    journal_.add_lazily(
        PutSessionExpiry{.owner = inbox.state.owner, .ends = wall_now() + time + ahead});
}

void Inboxes::find_handed_out(Session& inbox) {
    const auto stamps = inbox.state.exchanges().outbox().stamps();
    if (stamps.empty()) return;
    for (Device& each : inbox.user.devices) {
        Exchanges& exchanges = session_of(each).state.exchanges();
        take_out(inbox.user,
                 exchanges.change_outbox(&Outbox::find_from_inbox, stamps, inbox.state.owner));
    }
}

/// The inbox is counted already.
Session& Inboxes::create(User& user) {
    Session& inbox = sessions_.find_or_create(user, {}, wall_now());
    inbox.state.set_expiry(static_cast<std::uint32_t>(settings_.inbox_expiry / 1000));
    user.devices.push_back(inbox);
    enter(inbox);
    if (!journal_.is_on()) return inbox;
    inbox.state.owner = journal_.next_owner();
    if (inbox.state.owner == 0) return inbox;
    journal_.add(PutOwner{.owner = inbox.state.owner,
                          .kind = OwnerKind::inbox,
                          .user = user.name,
                          .expiry = inbox.state.expiry(),
                          .protocol = static_cast<std::uint8_t>(inbox.terms.version)});
    return inbox;
}

void Inboxes::enter(Session& inbox) {
    inboxes_.emplace(&inbox.state.exchanges().begin_inbox(packets_.queues().totals()), &inbox);
}

void Inboxes::restore(Session& inbox) {
    accounts_.open_anyway();
    enter(inbox);
}

/// Once a second, ends some inboxes with only expired messages. The sweep of expired messages ends
/// the others within a minute.
void Inboxes::end_expired(Millis now) {
    constexpr std::size_t inboxes_a_turn = 4096;
    if (std::exchange(ended_expired_, tick_at(now)) == tick_at(now) || inboxes_.empty()) return;
    const std::size_t looks = std::min(inboxes_a_turn, inboxes_.size());
    work_ += looks / looks_of_a_work;
    std::vector<User*> users;
    auto next = inboxes_.find(examined_);
    for (std::size_t i = 0; i < looks; ++i) {
        if (next != inboxes_.end()) ++next;
        if (next == inboxes_.end()) next = inboxes_.begin();
        Session& inbox = *next->second;
        if (packets_.queues().drop_expired(inbox, now)) users.push_back(&inbox.user);
    }
    examined_ = next->first;
    for (User* user : users) end_if_done_(*user, now);
}

void Inboxes::end_expired_of(InboxSenders::Sender sender, Millis now) {
    const auto inboxes = senders_.inboxes_of(sender, settings_.max_inboxes_per_user);
    work_ += inboxes.size() / looks_of_a_work;
    for (const Outbox* outbox : inboxes) {
        Session& inbox = *inboxes_.find(outbox)->second;
        if (packets_.queues().drop_expired(inbox, now)) end_if_done_(inbox.user, now);
    }
}

void Inboxes::drop_some(const InboxSenders::Largest& largest, const char* why, Millis now) {
    constexpr std::size_t inboxes_a_turn = 512;
    constexpr std::size_t messages_a_turn = 4096;
    std::size_t left = messages_a_turn;
    const std::size_t half = std::min(inboxes_a_turn, (largest.inboxes + 1) / 2);
    for (const Outbox* outbox : senders_.inboxes_of(largest.sender, half)) {
        Session& inbox = *inboxes_.find(outbox)->second;
        left -= packets_.queues().drop_of(inbox, largest.sender, left);
        end_if_done_(inbox.user, now);
        if (left == 0) break;
    }
    log_limited(spdlog::level::warn, "{} messages of one sender dropped from inboxes: {}",
                messages_a_turn - left, why);
}

void Inboxes::hand_out(User& user, Millis now) {
    if (Session* const device = move_to_device(user, now)) packets_.send_waiting(*device, now);
}

/// Moves the inbox's messages to the first device's queue. In the store they stay in the inbox.
Session* Inboxes::move_to_device(User& user, Millis now) {
    Session* const inbox = find(user);
    if (!inbox || user.here == 0) return nullptr;
    Session& device = session_of(user.devices.front());
    Queue messages = inbox->state.exchanges().change_outbox(&Outbox::take_queue);
    if (messages.empty()) return &device;
    begin_anew(*inbox, now);
    for (QueuedMessage& each : messages) each.mark_from_inbox(true, inbox->state.owner);
    device.state.exchanges().open_outbox(packets_.queues().totals()).merge(std::move(messages));
    return &device;
}

void Inboxes::take_out(const User& user, const std::vector<std::uint64_t>& stamps) {
    Session* const inbox = find(user);
    if (!inbox || stamps.empty()) return;
    const auto is_among_them = [&](const QueuedMessage& each) {
        return std::ranges::binary_search(stamps, each.stamp);
    };
    inbox->state.exchanges().change_outbox(
        [&](Outbox& outbox) { outbox.take_queued_if(is_among_them); });
}

void Inboxes::return_messages_of(Session& session, Millis now) {
    Session* const inbox = session.is_inbox() ? nullptr : find(session.user);
    if (!inbox) return;
    begin_anew(*inbox, now);
    Queue messages = session.state.exchanges().change_outbox(&Outbox::take_from_inbox, true);
    for (QueuedMessage& each : messages) each.mark_from_inbox(false, inbox->state.owner);
    inbox->state.exchanges().open_outbox(packets_.queues().totals()).merge(std::move(messages));
}

Session* Inboxes::done(const User& user) const {
    Session* const inbox = find(user);
    if (!inbox || !inbox->state.exchanges().outbox().idle()) return nullptr;
    for (const Device& device : user.devices) {
        const auto& session = static_cast<const Session&>(device);
        if (session.state.exchanges().outbox().has_any_from_inbox()) return nullptr;
    }
    return inbox;
}

bool Inboxes::has_handed_out(const Session& session) const {
    return session.is_inbox() && session.user.has_device() && !done(session.user);
}

void Inboxes::forget(Session& inbox) {
    if (inboxes_.erase(&inbox.state.exchanges().outbox()) > 0) accounts_.close();
}

}  // namespace pulsegate
