#include "tests/support/ledger_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <future>
#include <limits>
#include <variant>

#include "server/base/hash.h"
#include "server/base/overloaded.h"

namespace pulsegate {

namespace {

std::string body(const MessageRef& message) {
    return fmt::format("{}|{}|{}|{:x}", message->topic, message->properties,
                       message->payload.size(), stable_hash(message->payload));
}

std::string line(WallMillis expires, std::uint32_t flags, const MessageRef& message) {
    return fmt::format("{} {} {}", expires, flags, body(message));
}

template <class Map>
void end_all(Map& map, OwnerId owner) {
    std::erase_if(map, [&](const auto& entry) { return entry.first.first == owner; });
}

}  // namespace

MessageRef message(std::string topic, std::string payload, std::string properties) {
    return share({.topic = std::move(topic),
                  .payload = std::move(payload),
                  .properties = std::move(properties)});
}

std::size_t StoredState::apply(const Unit& unit) {
    std::size_t cancelled = 0;
    for (const Operation& operation : unit.operations)
        if (const auto* what = std::get_if<CancelDelayed>(&operation))
            cancelled += cancel(*what);
        else
            apply_one(operation);
    forget_done();
    return cancelled;
}

/// A message that nobody waits for when a unit is done: the ledger deletes it.
void StoredState::forget_done() {
    std::erase_if(about_, [&](const auto& entry) {
        const auto first = waiting_.lower_bound({entry.first, 0});
        return first == waiting_.end() || first->first.first != entry.first;
    });
}

void StoredState::apply_one(const Operation& operation) {
    std::visit(Overloaded{
                   [&](const PutMessage& what) { put(what); },
                   [&](const PutReceiver& what) { receiver(what); },
                   [&](const Done& what) { done(what); },
                   [&](const PutOwner& what) { owner(what); },
                   [&](const EndOwner& what) { end(what.owner); },
                   [&](const RetireOwner& what) { retire(what.owner); },
                   [&](const PutSubscription& what) {
                       if (known(what.owner)) subscription(what);
                   },
                   [&](const MarkRetainedOwed& what) {
                       const auto found = subscriptions_.find({what.owner, what.filter});
                       if (found != subscriptions_.end()) found->second.owed = what.owed;
                   },
                   [&](const DropSubscription& what) {
                       subscriptions_.erase({what.owner, what.filter});
                   },
                   [&](const PutSessionExpiry& what) {
                       if (known(what.owner)) session_expiry(what);
                   },
                   [&](const DropSessionExpiry& what) { absences_.erase(what.owner); },
                   [&](const PutIncoming& what) {
                       if (known(what.owner)) incoming(what);
                   },
                   [&](const DropIncoming& what) {
                       incoming_.erase({what.owner, what.packet_id});
                   },
                   [&](const PutExchange& what) {
                       if (known(what.owner)) exchange(what, false);
                   },
                   [&](const ReleaseExchange& what) { release(what); },
                   [&](const DropExchange& what) {
                       exchanges_.erase({what.owner, what.packet_id});
                   },
                   [&](const PutWill& what) {
                       if (known(what.owner)) will(what);
                   },
                   [&](const DropWill& what) { wills_.erase(what.owner); },
                   [&](const PutRetained& what) { retained(what); },
                   [&](const DropRetained& what) { retain(what.stamp, what.topic, ""); },
                   [&](const PutDelayed& what) { delayed(what); },
                   [&](const CancelDelayed&) {},
                   [&](const DropDelayed& what) { delayed_.erase(what.id); },
                   [&](const PutUser& what) { user(what); },
                   [&](const DropUser& what) { users_.erase(what.name); },
                   [&](const PutBan& what) { ban(what); },
                   [&](const DropBan& what) {
                       bans_.erase({what.user, what.client, what.address});
                   },
                   [&](const DropEndedBans& what) {
                       std::erase_if(bans_, [&](const auto& entry) {
                           const WallMillis ends = entry.second.first;
                           return ends > 0 && ends <= what.by;
                       });
                   },
                   [&](const PutRevocation& what) { revocation(what); },
                   [&](const PutMember& what) { member(what); },
                   [&](const DropMember& what) {
                       members_.erase({what.topic, what.user});
                   },
                   [&](const PutRoomPosition& what) { room_position(what); },
                   [&](const DropRoomPosition& what) { room_positions_.erase(what.user); },
                   [&](const PutEvent& what) {
                       const auto last = events_.empty() ? 0 : events_.rbegin()->first;
                       events_[last + 1] = fmt::format("{} {}", what.kind, what.body);
                   },
                   [](const EventDelivered&) {},
                   [&](const PutDeadLetter& what) { dead_letter(what.letter); },
                   [&](const DropDeadLetters& what) {
                       if (what.number)
                           dead_letters_.erase(*what.number);
                       else
                           dead_letters_.clear();
                   },
                   [](const ReplayDeadLetters&) {},
               },
               operation);
}

void StoredState::put(const PutMessage& put) {
    const WaitingMessage about{
        .stamp = put.stamp,
        .expires = put.expires,
        .flags = put.flags,
        .sender = put.sender,
        .bytes = put.message->properties.size() + put.message->payload.size()};
    about_.emplace(put.stamp, about);
    bool first = true;
    for (const auto& [key, line] : waiting_) first = first && key.first != put.stamp;
    if (first) bodies_[put.stamp] = line(put.expires, put.flags, put.message);
    for (const Receiver& receiver : put.receivers)
        if (known(receiver.owner)) waiting(about, receiver);
    apply_early(about);
}

void StoredState::apply_early(const WaitingMessage& message) {
    auto next = early_.lower_bound({message.stamp, 0});
    while (next != early_.end() && next->first.first == message.stamp) {
        waiting(message, next->second);
        next = early_.erase(next);
    }
}

void StoredState::receiver(const PutReceiver& put) {
    if (!known(put.receiver.owner)) return;
    const auto about = about_.find(put.stamp);
    if (about != about_.end())
        waiting(about->second, put.receiver);
    else
        early_[{put.stamp, put.receiver.owner}] = put.receiver;
}

void StoredState::done(const Done& done) {
    const auto is_done = [&](const auto& entry) {
        const auto& [stamp, owner] = entry.first;
        return owner == done.owner &&
               (stamp <= done.upto ||
                std::find(done.beyond.begin(), done.beyond.end(), stamp) != done.beyond.end());
    };
    std::erase_if(waiting_, is_done);
    std::erase_if(early_, is_done);
}

void StoredState::end(OwnerId owner) {
    owners_.erase(owner);
    end_session(owner);
    const auto is_of_owner = [&](const auto& entry) { return entry.first.second == owner; };
    std::erase_if(waiting_, is_of_owner);
    std::erase_if(early_, is_of_owner);
}

void StoredState::end_session(OwnerId owner) {
    absences_.erase(owner);
    wills_.erase(owner);
    end_all(subscriptions_, owner);
    end_all(exchanges_, owner);
    std::erase_if(incoming_, [&](const Packet& packet) { return packet.first == owner; });
}

void StoredState::retire(OwnerId owner) {
    if (!known(owner)) return;
    end_session(owner);
    PutOwner& kept = owners_.at(owner);
    kept.kind = OwnerKind::retired;
    kept.user.clear();
    kept.client = std::to_string(owner);
}

void StoredState::release(const ReleaseExchange& release) {
    const auto found = exchanges_.find({release.owner, release.packet_id});
    if (found == exchanges_.end()) return;
    found->second = {std::get<Stamp>(found->second), QoS::exactly_once, true};
}

void StoredState::retain(Stamp stamp, const std::string& topic, const Line& line) {
    auto& kept = retained_[topic];
    if (stamp > kept.first) kept = {stamp, line};
}

void StoredState::owner(const PutOwner& put) { owners_[put.owner] = put; }

void StoredState::subscription(const PutSubscription& put) {
    const auto [found, is_new] = subscriptions_.try_emplace({put.owner, put.filter}, put);
    const bool owed = found->second.owed;
    found->second = put;
    found->second.owed = owed;
}

void StoredState::session_expiry(PutSessionExpiry put) {
    absences_[put.owner] = {put.ends, put.position};
}

void StoredState::incoming(PutIncoming put) { incoming_.insert({put.owner, put.packet_id}); }

void StoredState::exchange(PutExchange put, bool released) {
    exchanges_[{put.owner, put.packet_id}] = {put.stamp, put.qos, released};
}

void StoredState::will(const PutWill& put) {
    wills_[put.owner] = fmt::format("{} {} {}", put.delay, put.message_expiry.value_or(0),
                                    line(0, put.flags, put.message));
}

void StoredState::waiting(const WaitingMessage& message, const Receiver& receiver) {
    waiting_[{message.stamp, receiver.owner}] =
        fmt::format("{} {} {} {} of {}", static_cast<int>(receiver.qos), receiver.retain,
                    fmt::join(receiver.identifiers, ","), receiver.share ? *receiver.share : "",
                    message.sender);
}

void StoredState::retained(const PutRetained& put) {
    retain(put.stamp, put.message->topic,
           fmt::format("{} {} {}", put.publisher, put.sender,
                       line(put.expires, put.flags, put.message)));
}

void StoredState::delayed(const PutDelayed& put) {
    if (put.name)
        std::erase_if(delayed_, [&](const auto& entry) {
            const auto& [user, name, line] = entry.second;
            return user == put.user && name == put.name;
        });
    delayed_[put.id] = {put.user, put.name,
                        line(put.message_expiry.value_or(0), put.flags, put.message)};
}

std::size_t StoredState::cancel(const CancelDelayed& cancel) {
    return std::erase_if(delayed_, [&](const auto& entry) {
        const auto& [user, name, line] = entry.second;
        if (cancel.user && *cancel.user != user) return false;
        return cancel.id == 0 ? name == cancel.name : entry.first == cancel.id;
    });
}

void StoredState::user(const PutUser& put) {
    users_[put.name] =
        fmt::format("{} {} {} {} {}", put.version, put.since, put.last_seen, put.cause, put.limit);
}

void StoredState::ban(const PutBan& put) {
    bans_[{put.user, put.client, put.address}] = {put.ends, put.reason};
}

void StoredState::member(const PutMember& put) {
    members_.emplace(std::pair(put.topic, put.user), put.since);
}

void StoredState::room_position(const PutRoomPosition& put) {
    room_positions_[put.user] = put.position;
}

void StoredState::revocation(const PutRevocation& put) {
    const auto known = revocations_.emplace(put.user, put.before).first;
    known->second = std::max(known->second, put.before);
}

std::vector<Stamp> StoredState::stamps() const {
    std::set<Stamp> all;
    for (const auto& [key, line] : waiting_) all.insert(key.first);
    return {all.begin(), all.end()};
}

Ledger::Start StoredState::read(Ledger& ledger) {
    const Ledger::Start start = ledger.load(*this);
    std::promise<std::vector<StoredMessage>> answered;
    ledger.read_messages(stamps(), [&](Outcome, std::vector<StoredMessage> found) {
        answered.set_value(std::move(found));
    });
    for (const StoredMessage& found : answered.get_future().get())
        bodies_[found.stamp] = line(found.expires, found.flags, found.message);
    std::promise<std::vector<PutDelayed>> listed;
    ledger.list_delayed(
        std::nullopt, 0, std::numeric_limits<std::size_t>::max(),
        [&](Outcome, std::vector<PutDelayed> found) { listed.set_value(std::move(found)); });
    for (const PutDelayed& found : listed.get_future().get()) delayed(found);
    read_events(ledger);
    return start;
}

void StoredState::dead_letter(const DeadLetter& letter) {
    dead_letters_[letter.event.number] =
        fmt::format("{} {} {}", letter.event.kind, letter.why, letter.event.body);
}

void StoredState::read_events(Ledger& ledger) {
    constexpr std::uint32_t all_kinds = 0xffffffff;
    constexpr auto no_limit = std::numeric_limits<std::size_t>::max();
    for (EventNumber after = 0; after < ledger.events().last;) {
        std::promise<EventPage> answered;
        ledger.read_events(after, all_kinds, no_limit,
                           [&](Outcome, EventPage page) { answered.set_value(std::move(page)); });
        const EventPage page = answered.get_future().get();
        for (const StoredEvent& event : page.events)
            events_[event.number] = fmt::format("{} {}", event.kind, event.body);
        if (page.upto == after) break;
        after = page.upto;
    }
    std::promise<std::vector<DeadLetter>> answered;
    ledger.list_dead_letters(0, false, no_limit, [&](Outcome, std::vector<DeadLetter> found) {
        answered.set_value(std::move(found));
    });
    for (const DeadLetter& letter : answered.get_future().get()) dead_letter(letter);
}

bool StoredState::has_owner(OwnerKind kind, const std::string& user,
                            const std::string& client) const {
    return std::ranges::any_of(owners_, [&](const auto& entry) {
        const PutOwner& owner = entry.second;
        return owner.kind == kind && owner.user == user && owner.client == client;
    });
}

std::string StoredState::text() const {
    std::string out;
    for (const auto& [id, put] : owners_)
        out += fmt::format("owner {} {} {} {} {} {}\n", id, static_cast<int>(put.kind), put.user,
                           put.client, put.expiry, put.protocol);
    for (const auto& [key, put] : subscriptions_)
        out += fmt::format("subscription {} {} {} {} {}\n", key.first, key.second, put.options,
                           put.identifier, put.owed);
    for (const auto& [owner, absence] : absences_)
        out += fmt::format("absence {} {} {}\n", owner, absence.first, absence.second);
    for (const auto& [owner, packet] : incoming_)
        out += fmt::format("incoming {} {}\n", owner, packet);
    for (const auto& [key, exchange] : exchanges_)
        out += fmt::format("exchange {} {} {} {} {}\n", key.first, key.second,
                           std::get<Stamp>(exchange), static_cast<int>(std::get<QoS>(exchange)),
                           std::get<bool>(exchange));
    for (const auto& [owner, line] : wills_) out += fmt::format("will {} {}\n", owner, line);
    for (const auto& [key, line] : waiting_)
        out += fmt::format("message {} for {}: {}\n", key.first, key.second, line);
    for (const Stamp stamp : stamps()) {
        const auto found = bodies_.find(stamp);
        out += fmt::format("body {} {}\n", stamp,
                           found == bodies_.end() ? "is missing" : found->second);
    }
    for (const auto& [topic, kept] : retained_)
        if (!kept.second.empty()) out += fmt::format("retained {} {}\n", kept.first, kept.second);
    for (const auto& [id, delayed] : delayed_) {
        const auto& [user, name, line] = delayed;
        out += fmt::format("delayed {} {} {} {}\n", id, user, name.value_or("-"), line);
    }
    for (const auto& [name, line] : users_) out += fmt::format("user {} {}\n", name, line);
    for (const auto& [target, ban] : bans_)
        out += fmt::format("ban {} {} {}\n", fmt::join(target, "/"), ban.first, ban.second);
    for (const auto& [key, since] : members_)
        out += fmt::format("member {} {} {}\n", key.first, key.second, since);
    for (const auto& [user, position] : room_positions_)
        out += fmt::format("away {} {}\n", user, position);
    for (const auto& [user, before] : revocations_)
        out += fmt::format("revocation {} {}\n", user, before);
    for (const auto& [number, line] : events_) out += fmt::format("event {} {}\n", number, line);
    for (const auto& [number, line] : dead_letters_)
        out += fmt::format("dead letter {} {}\n", number, line);
    return out;
}

}  // namespace pulsegate
