#include "server/session/rooms/room_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "protocol/topic.h"
#include "server/base/log.h"
#include "server/session/state/session.h"

namespace pulsegate {

namespace {

constexpr Stamp everything = std::numeric_limits<Stamp>::max();

/// The position of an absent device. A device without a position is leaving just now.
Stamp position_of_device(const Session& session) {
    return session.expiry_timer ? session.expiry_timer->position : everything;
}

}  // namespace

bool RoomLogs::is_behind(const Session& session, Stamp since, const Message& message) {
    if (session.link || message.qos == QoS::at_most_once) return false;
    return message.stamp > std::max(position_of_device(session), since);
}

/// Usually a message is later than all positions, so one comparison is enough.
bool RoomLogs::is_behind(std::string_view name, const User* user, Stamp since,
                         const Message& message) const {
    if (settings_.inbox_expiry == 0 || (user && user->has_device())) return false;
    if (message.stamp > rooms_.latest_position()) return true;
    return message.stamp > std::max(rooms_.position_of(name), since);
}

DeliveryOutcome RoomLogs::keep(const MessageRef& message, PartSource& parts, Millis now) {
    thread_.assert_here();
    Log& log = find_or_create(message->topic);
    // Another shard stores the message. It must wait until the positions are stored, because these
    // tell which members are behind.
    const PartRef part = parts.part();
    if (part && part->collects() && !rooms_.are_positions_stored()) journal_.await_retries(part);
    const Delivery delivery{.message = message,
                            .qos = std::min(message->qos, settings_.max_qos),
                            .retain = message->retain};
    const auto dropped = counters_.dropped_queue_full;
    const DeliveryOutcome outcome = packets_.keep(log.queue, log.owner, delivery, now, parts);
    if (counters_.dropped_queue_full != dropped)
        log_limited(spdlog::level::warn,
                    "{}: too many messages wait for absent members, dropping the oldest messages "
                    "of the users who have most messages among them",
                    in_quotes(message->topic));
    return outcome;
}

RoomLogs::Log& RoomLogs::find_or_create(const std::string& topic) {
    Log& log = logs_[topic];
    if (log.owner != 0 || !journal_.is_on()) return log;
    log.owner = journal_.next_owner();
    if (log.owner == 0) return log;
    journal_.add(PutOwner{.owner = log.owner,
                          .kind = OwnerKind::room,
                          .user = topic,
                          .client = fmt::format("{}/{}", place_.index, place_.homes.shards())});
    return log;
}

void RoomLogs::restore(std::string_view topic, const WaitingMessage& stored,
                       const Receiver& receiver, Millis expires) {
    Log& log = logs_.find(topic)->second;
    Queue message;
    message.emplace_back(stored, receiver, expires);
    Outbox& outbox = log.queue.open_outbox(packets_.queues().totals());
    outbox.enqueue(std::move(message));
    outbox.order_last();
}

// -- positions --

/// No message waits longer than this for a user without a device.
Stamp RoomLogs::oldest_in_inboxes(Millis now) const {
    if (settings_.inbox_expiry == 0) return everything;
    return stamp_at(expiry_clock(now) - settings_.inbox_expiry);
}

Stamp RoomLogs::position_without_device(std::string_view user, Millis now) const {
    return std::max(rooms_.position_of(user), oldest_in_inboxes(now));
}

/// The lowest position of the user's absent devices.
Stamp RoomLogs::position_of_devices(const User& user, Stamp since) const {
    Stamp least = everything;
    for (const Device& device : user.devices) {
        ++work_;
        const auto& session = static_cast<const Session&>(device);
        if (!session.is_inbox() && !session.link)
            least = std::min(least, std::max(position_of_device(session), since));
    }
    return least;
}

// -- devices that come back --

/// The queue of the room; null if no message waits in it.
const Outbox* RoomLogs::queue_of(std::string_view topic, Millis now) {
    const auto found = logs_.find(topic);
    if (found == logs_.end()) return nullptr;
    Log& log = found->second;
    packets_.queues().drop_expired(log.queue, log.owner, now);
    const Outbox& outbox = log.queue.outbox();
    return outbox.queued() > 0 ? &outbox : nullptr;
}

bool RoomLogs::has_missed(std::string_view user, Stamp position, Millis now) {
    thread_.assert_here();
    bool found = false;
    if (logs_.empty()) return found;
    rooms_.visit_rooms_of(user, [&](std::string_view topic, Stamp since) {
        if (found) return;
        ++work_;
        const Outbox* const outbox = queue_of(topic, now);
        found = outbox && outbox->queue().back().stamp > std::max(position, since);
    });
    return found;
}

/// Takes the newest messages of all rooms by turns, because a queue has limited room. So no sender
/// can fill it from one room at the cost of the other rooms. It takes memory for an entry of each
/// message, but not for bodies.
RoomLogs::Backlog RoomLogs::missed(const Session& session, Stamp position, Millis now) {
    const std::string& user = session.user.name;
    Backlog backlog;
    if (!has_missed(user, position, now)) return backlog;
    std::vector<Unread> rooms;
    // If a reload lowers the limits, a room keeps its messages, and its members get as many.
    QueueBounds::Bounds& largest = backlog.largest_room;
    rooms_.visit_rooms_of(user, [&](std::string_view topic, Stamp since) {
        ++work_;
        const Outbox* const outbox = queue_of(topic, now);
        if (!outbox) return;
        largest.messages = std::max<std::size_t>(largest.messages, outbox->queued());
        largest.bytes = std::max<std::size_t>(largest.bytes, outbox->queued_bytes());
        rooms.push_back({.topic = logs_.find(topic)->first,
                         .next = outbox->queue().rbegin(),
                         .end = outbox->queue().rend(),
                         .position = std::max(position, since)});
    });
    const auto newest = [](const Unread& room) { return room.next->stamp; };
    std::ranges::sort(rooms, std::ranges::greater(), newest);
    const auto most = std::max<std::size_t>({settings_.max_queued_messages, largest.messages, 1});
    const std::vector<Stamp> queued = queued_after(session, position);
    const auto take_newest = [&](Unread& room) {
        ++work_;
        if (room.next == room.end || room.next->stamp <= room.position) return true;
        const QueuedMessage& each = *room.next++;
        if (std::ranges::binary_search(queued, each.stamp)) return false;
        if (backlog.messages.size() < most)
            backlog.messages.push_back({&each, room.topic});
        else
            ++backlog.left_out;
        return false;
    };
    // Left-out messages are counted, but not more than a queue holds, because an exact count is not
    // worth more work.
    while (!rooms.empty() && backlog.left_out < most) std::erase_if(rooms, take_newest);
    std::ranges::sort(backlog.messages, {}, [](const Missed& each) { return each.message->stamp; });
    return backlog;
}

/// Returns the later messages that the device has in its queue already, ascending. While the room
/// was open, the device's own subscription may have brought some of them.
std::vector<Stamp> RoomLogs::queued_after(const Session& session, Stamp position) const {
    std::vector<Stamp> stamps;
    const Outbox& outbox = session.state.exchanges().outbox();
    work_ += outbox.queued();
    for (const QueuedMessage& each : outbox.queue())
        if (each.stamp > position) stamps.push_back(each.stamp);
    std::ranges::sort(stamps);
    return stamps;
}

/// Visits at most as many messages as it counts or finds in the device's own queue.
std::size_t RoomLogs::missed(const Session& device, Millis now) {
    thread_.assert_here();
    if (device.link || logs_.empty()) return 0;
    const Stamp position = position_of_device(device);
    const std::size_t most = std::max<std::size_t>(settings_.max_queued_messages, 1);
    const std::vector<Stamp> queued = queued_after(device, position);
    std::size_t missed = 0;
    rooms_.visit_rooms_of(device.user.name, [&](std::string_view topic, Stamp since) {
        ++work_;
        const Outbox* const outbox = queue_of(topic, now);
        if (!outbox) return;
        const Stamp later_than = std::max(position, since);
        auto next = outbox->queue().rbegin();
        for (; next != outbox->queue().rend() && next->stamp > later_than; ++next) {
            if (missed >= std::max<std::size_t>(most, outbox->queued())) break;
            if (!std::ranges::binary_search(queued, next->stamp)) ++missed;
        }
    });
    work_ += missed / 16;  // the same weight as in `sweep`
    return missed;
}

bool RoomLogs::has_missed(const Session& device, Millis now) {
    return !device.link && has_missed(device.user.name, position_of_device(device), now);
}

void RoomLogs::catch_up(Session& device, Millis now) {
    if (device.link) return;  // another connection takes the session over
    enqueue(device, missed(device, position_of_device(device), now), now);
}

bool RoomLogs::has_missed(std::string_view user, Millis now) {
    return has_missed(user, position_without_device(user, now), now);
}

void RoomLogs::catch_up_inbox(Session& inbox, Millis now) {
    enqueue(inbox, missed(inbox, position_without_device(inbox.user.name, now), now), now);
}

void RoomLogs::enqueue(Session& session, const Backlog& backlog, Millis now) {
    counters_.dropped_queue_full += backlog.left_out;
    std::map<std::string_view, Terms> terms;
    Queue messages;
    for (const Missed& each : backlog.messages) {
        const auto [of_room, is_first] = terms.try_emplace(each.topic);
        if (is_first) of_room->second = terms_of(session, each.topic);
        Receiver receives = receiver(session, *each.message, of_room->second);
        messages.emplace_back(*each.message, receives);
        if (receives.owner != 0)
            journal_.add_lazily(PutReceiver{each.message->stamp, std::move(receives)});
    }
    packets_.queues().merge(session, std::move(messages), backlog.largest_room, now);
}

/// The additions of the session's subscriptions to messages from the room.
RoomLogs::Terms RoomLogs::terms_of(const Session& session, std::string_view topic) const {
    Terms terms;
    router_.match_own(HashedText(topic), session.state.subscriptions(), [&](const auto& each) {
        terms.retain_as_published |= each.options.retain_as_published;
        if (each.identifier != 0) terms.identifiers.push_back(each.identifier);
    });
    return terms;
}

Receiver RoomLogs::receiver(const Session& session, const QueuedMessage& message,
                            const Terms& terms) {
    return {.owner = message.is_stored ? session.state.owner : 0,
            .qos = message.is_exactly_once ? QoS::exactly_once : QoS::at_least_once,
            .retain = message.retain && terms.retain_as_published,
            .identifiers = terms.identifiers};
}

// -- how much waits --

RoomLogs::Content RoomLogs::content(std::string_view topic, Millis now) {
    thread_.assert_here();
    Content content{.topic = topic, .oldest_in_inboxes = oldest_in_inboxes(now)};
    const Outbox* const outbox = queue_of(topic, now);
    if (!outbox) return content;
    work_ += outbox->queued() / 16;  // the same weight as in `sweep`
    content.stamps.reserve(outbox->queued());
    for (const QueuedMessage& each : outbox->queue()) content.stamps.push_back(each.stamp);
    return content;
}

std::size_t RoomLogs::Content::later_than(Stamp position) const {
    return static_cast<std::size_t>(stamps.end() - std::ranges::upper_bound(stamps, position));
}

std::size_t RoomLogs::waiting(const Content& log, std::string_view name, const User* user,
                              Stamp since) const {
    ++work_;
    if (!user || !user->has_device()) {
        std::size_t waiting =
            log.later_than(std::max({since, rooms_.position_of(name), log.oldest_in_inboxes}));
        if (!user) return waiting;
        for (const Device& inbox : user->devices)
            waiting += static_cast<const Session&>(inbox).state.exchanges().outbox().waiting();
        return waiting;
    }
    std::size_t most = 0;
    for (const Device& device : user->devices) {
        const auto& session = static_cast<const Session&>(device);
        if (!session.is_inbox()) most = std::max(most, waiting(log, session, since));
    }
    return most;
}

std::size_t RoomLogs::waiting(const Content& log, const Session& device, Stamp since) const {
    ++work_;
    bool has_own = false;  // its own subscription brings all messages of the log
    if (!settings_.rooms_are_closed && !log.stamps.empty())
        router_.match_own(HashedText(log.topic), device.state.subscriptions(),
                          [&](const Subscription&) { has_own = true; });
    const std::size_t queued = device.state.exchanges().outbox().waiting();
    // Its own subscription may bring the latest message in a later round.
    if (has_own) return std::max<std::size_t>(queued, 1);
    return queued + log.later_than(std::max(position_of_device(device), since));
}

// -- when there is too little room --

bool RoomLogs::find_largest(Largest& largest, Bytes bytes, Millis now) {
    thread_.assert_here();
    constexpr std::uint64_t work_a_turn = 2048;
    const auto work = [&] { return work_ + packets_.queues().work(); };
    const auto began_at = work();
    auto next = logs_.lower_bound(largest.next);
    for (; next != logs_.end() && work() - began_at < work_a_turn; ++next) {
        ++work_;
        Log& log = next->second;
        packets_.queues().drop_expired(log.queue, log.owner, now);
        const std::size_t of_this = (log.queue.outbox().*bytes)();
        largest.sum += of_this;
        if (of_this <= largest.bytes) continue;
        largest.topic = next->first;
        largest.bytes = of_this;
    }
    if (next != logs_.end()) largest.next = next->first;
    return next == logs_.end();
}

void RoomLogs::halve(std::string_view topic, const char* why, Millis now) {
    thread_.assert_here();
    const auto found = logs_.find(topic);
    if (found == logs_.end() || found->second.queue.outbox().queued() == 0)
        return;  // no member is behind any longer
    Log& log = found->second;
    const std::size_t dropped = packets_.queues().halve(log.queue, log.owner, now);
    if (dropped == 0) return;  // dropping expired messages was enough
    log_limited(spdlog::level::warn, "{}: {} messages for absent members dropped: {}",
                in_quotes(topic), dropped, why);
}

// -- messages that every member has --

void RoomLogs::sweep(Millis now) {
    thread_.assert_here();
    constexpr std::size_t members_a_turn = 1000;
    constexpr std::size_t messages_for_a_member = 16;  // messages that count as one member
    std::size_t left = members_a_turn;
    for (std::size_t logs = logs_.size(); logs > 0 && left > 0; --logs, --left) {
        auto log = logs_.lower_bound(sweep_.topic);
        if (log == logs_.end()) log = logs_.begin();
        const auto& topic = log->first;
        if (topic != sweep_.topic) {
            const Stamp latest = next_stamp();
            sweep_ = {.topic = topic, .positions = {latest, latest}};
            packets_.queues().drop_expired(log->second.queue, log->second.owner, now);
        }
        const auto* const members = rooms_.members(topic);
        if (members && !sweep(*members, left, now)) return;
        if (!members) sweep_.positions = {everything, everything};
        left -= std::min(left - 1,
                         drop_done(topic, log->second, sweep_.positions) / messages_for_a_member);
        sweep_ = {.topic = topic + '\0'};
        if (log->second.queue.outbox().queued() > 0) continue;
        if (log->second.owner != 0) journal_.add_lazily(EndOwner{log->second.owner});
        logs_.erase(log);
    }
}

/// Returns false if members are left. Members that leave meanwhile have later positions.
bool RoomLogs::sweep(const Rooms::Members& members, std::size_t& left, Millis now) {
    auto next = members.upper_bound(sweep_.member);
    for (; next != members.end() && left > 1; ++next, --left) {
        ++work_;
        const auto& [name, since] = *next;
        const Positions positions = positions_of(name, since, now);
        sweep_.positions.got = std::min(sweep_.positions.got, positions.got);
        sweep_.positions.done = std::min(sweep_.positions.done, positions.done);
        sweep_.member = name;
    }
    return next == members.end();
}

RoomLogs::Positions RoomLogs::positions_of(std::string_view name, Stamp since, Millis now) const {
    const User* const user = presence_.find(name);
    if (user && user->has_device()) {
        const Stamp position = position_of_devices(*user, since);
        return {position, position};
    }
    if (settings_.inbox_expiry == 0) return {everything, everything};
    const Stamp got = std::max(since, rooms_.position_of(name));
    return {got, std::max(got, oldest_in_inboxes(now))};
}

/// Drops the messages that every member has. Returns the number of messages that it has examined.
std::size_t RoomLogs::drop_done(const std::string& topic, Log& log, const Positions& positions) {
    const Outbox& outbox = log.queue.outbox();
    const std::size_t queued = outbox.queued();
    if (queued == 0 || outbox.queue().front().stamp > positions.done) return 0;
    work_ += queued;
    std::size_t done = 0;
    std::size_t got = 0;
    for (const QueuedMessage& each : outbox.queue()) {
        if (each.stamp > positions.done) break;
        ++done;
        got += each.stamp <= positions.got;
    }
    counters_.dropped_session_ended += done - got;
    if (done > got)
        log_limited(spdlog::level::warn,
                    "{}: {} messages dropped: they waited longer than inbox-expiry for members "
                    "without a session",
                    in_quotes(topic), done - got);
    packets_.queues().drop_first(log.queue, log.owner, done);
    return queued;
}

}  // namespace pulsegate
