#include "tests/support/delivery_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/message/topics.h"
#include "tests/support/session_model.h"

namespace pulsegate {

namespace {

constexpr std::string_view group_prefix = "$share/g/";

bool is_share(std::string_view filter) { return filter.starts_with(group_prefix); }

bool matches(std::string_view filter, std::string_view topic) {
    if (is_share(filter)) filter.remove_prefix(group_prefix.size());
    return selects(filter, topic);
}

template <class... Args>
[[noreturn]] void violated(fmt::format_string<Args...> format, Args&&... args) {
    throw Broken(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

// -- messages --

DeliveryModel::Number DeliveryModel::publish(Note note) {
    notes_.push_back({.note = std::move(note), .sent = ++now_});
    return static_cast<Number>(notes_.size() - 1);
}

/// At QoS 1 there may be two if it was sent again, of which one is cancelled.
void DeliveryModel::cancelled(Number number) {
    Entry& entry = notes_.at(number);
    entry.cancelled = !entry.sent_again || entry.note.qos == QoS::exactly_once;
}

void DeliveryModel::acknowledge(Number number) {
    Entry& entry = notes_.at(number);
    if (entry.acknowledged == never) entry.acknowledged = ++now_;
}

// -- sessions --

void DeliveryModel::begin_anew(const std::string& client) {
    Receiver& receiver = receivers_[client];
    receiver.begins_anew = true;
    if (receiver.expected == Expected::present) receiver.expected = Expected::either;
    for (Period& period : receiver.periods) period.sure = never;
}

void DeliveryModel::connected(const std::string& client, const std::string& user, bool clean,
                              bool kept, bool present) {
    Receiver& receiver = receivers_[client];
    receiver.user = user;
    const Expected expected = clean ? Expected::absent : receiver.expected;
    if (present && expected == Expected::absent)
        violated("a session of {} has come back that had ended", client);
    if (!present && expected == Expected::present) violated("the session of {} is lost", client);
    // That of an earlier CONNECT may be present already, and not be on the disk.
    const bool is_new = std::exchange(receiver.begins_anew, false);
    meet(client, user);
    receiver.kept = kept;
    receiver.expected = kept ? Expected::present : Expected::absent;
    if (present && expected == Expected::present) return;
    receiver.received.clear();
    receiver.latest.clear();
    if (!present) return begin_session(receiver);
    receiver.certain = !is_new;
    if (!is_new) make_certain(receiver);
}

/// A newcomer is here. What is not acknowledged yet may go to this session, and end with it.
void DeliveryModel::meet(const std::string& client, const std::string& user) {
    for (Entry& entry : notes_) {
        const bool is_for_user = entry.note.for_newcomer && entry.note.topic == inbox_topic(user);
        const bool is_for_client = is_for_user || entry.note.newcomers.contains(client);
        if (is_for_client && entry.acknowledged == never) entry.met.insert(client);
    }
}

/// The one before will never come back.
void DeliveryModel::begin_session(Receiver& receiver) {
    ++now_;
    for (Period& period : receiver.periods) {
        if (!period.is_open()) continue;
        period.end = now_;
        period.ended_with_session = true;
    }
    receiver.certain = false;
    for (const std::string& topic : {inbox_topic(receiver.user), std::string(room)})
        receiver.periods.push_back({.filter = topic, .qos = QoS::exactly_once, .begin = now_});
}

void DeliveryModel::disconnected(const std::string& client) {
    Receiver& receiver = receivers_[client];
    receiver.left = ++now_;
    receiver.is_left_certain = false;
    if (receiver.kept) return;
    for (Period& period : receiver.periods)
        if (period.is_open()) period.end = now_;
}

void DeliveryModel::make_certain(Receiver& receiver) {
    ++now_;
    receiver.certain = true;
    for (Period& period : receiver.periods) {
        const bool is_own = period.filter == inbox_topic(receiver.user) || period.filter == room;
        const bool is_kept = receiver.expected == Expected::present;
        if (is_own && is_kept && period.is_open() && period.sure == never) period.sure = now_;
    }
}

std::size_t DeliveryModel::subscribe(const std::string& client, const std::string& filter,
                                     QoS qos) {
    auto& periods = receivers_.at(client).periods;
    const auto found = std::ranges::find_if(periods, [&](const Period& period) {
        return period.is_open() && !period.may_have_ended && period.filter == filter;
    });
    const auto number = static_cast<std::size_t>(found - periods.begin());
    if (found == periods.end()) periods.push_back({.filter = filter, .qos = qos, .begin = ++now_});
    return number;
}

void DeliveryModel::subscribed(const std::string& client, std::size_t subscription) {
    Receiver& receiver = receivers_.at(client);
    if (!receiver.kept) return;
    make_certain(receiver);  // the disk has the session if it has a later subscription of it
    Period& period = receiver.periods.at(subscription);
    if (period.may_have_ended || period.sure != never) return;
    period.sure = ++now_;
}

void DeliveryModel::unsubscribe(const std::string& client, const std::string& filter) {
    for (Period& period : receivers_.at(client).periods)
        if (period.is_open() && period.filter == filter) {
            period.sure = never;
            period.may_have_ended = true;
        }
}

void DeliveryModel::unsubscribed(const std::string& client, const std::string& filter) {
    ++now_;
    for (Period& period : receivers_.at(client).periods)
        if (period.is_open() && period.may_have_ended && period.filter == filter) period.end = now_;
}

void DeliveryModel::settle() {
    for (auto& [client, receiver] : receivers_) make_certain(receiver);
}

void DeliveryModel::settle_all() {
    for (auto& [client, receiver] : receivers_) receiver.is_left_certain = true;
}

void DeliveryModel::crash() {
    for (auto& [client, receiver] : receivers_) {
        // The gateway takes clients for connected of which it does not know that they had left.
        if (!receiver.is_left_certain) receiver.left = ++now_;
        receiver.begins_anew = false;
        if (receiver.certain) continue;
        receiver.expected = Expected::either;
        for (Period& period : receiver.periods)
            if (period.is_open()) period.sure = never;
    }
}

// -- judgement --

/// Was the message for this session when it was sent for the first time?
bool DeliveryModel::was_there(const Receiver& receiver, const Entry& entry) const {
    return std::ranges::any_of(receiver.periods, [&](const Period& period) {
        return period.is_open() && period.begin < entry.sent &&
               matches(period.filter, entry.note.topic);
    });
}

bool DeliveryModel::may_get(const Receiver& receiver, const Entry& entry, bool by_group) const {
    const std::string& topic = entry.note.topic;
    if (topic == inbox_topic(receiver.user) || topic == room) return true;
    // A group has it until one of its members has.
    const bool ends_with_answer = entry.note.kind == Kind::plain && !entry.note.retain && !by_group;
    return std::ranges::any_of(receiver.periods, [&](const Period& period) {
        const bool begins_in_time = !ends_with_answer || period.begin < entry.acknowledged;
        return period.end > entry.sent && begins_in_time && is_share(period.filter) == by_group &&
               matches(period.filter, topic);
    });
}

void DeliveryModel::receive(const std::string& client, const Arrival& arrival, WallMillis now) {
    const auto& [number, qos, is_new, by_group, dup] = arrival;
    Receiver& receiver = receivers_.at(client);
    const Entry& entry = notes_.at(number);
    if (entry.cancelled) violated("{} got {}, which was cancelled", client, number);
    if (entry.note.due > now)
        violated("{} got {} {} ms early", client, number, entry.note.due - now);
    if (!may_get(receiver, entry, by_group))
        violated("{} got {} without a subscription to {}", client, number, entry.note.topic);
    check_dup(client, receiver, entry, arrival);
    if (!is_new) return;
    if (by_group) return receive_by_group(client, arrival);
    const bool is_first = receiver.ever_received.insert(number).second;
    const unsigned times = ++receiver.received[number];
    const bool comes_once = qos == QoS::exactly_once && entry.note.kind != Kind::will;
    if (times > 1 && comes_once) violated("{} got {} twice at QoS 2", client, number);
    if (is_first) check_order(receiver, entry, number, qos);
}

/// MQTT 5.0, 3.3.1.1. What an inbox or the room has kept comes as a new message, for it may go to
/// another client; what its publisher has sent again is one.
void DeliveryModel::check_dup(const std::string& client, const Receiver& receiver,
                              const Entry& entry, const Arrival& arrival) {
    const Note& note = entry.note;
    if (arrival.dup && entry.sent > receiver.left)
        violated("{} got {} with DUP, which can't have been sent before", client, arrival.number);
    const bool is_kept_for_others = note.topic == room || note.topic == inbox_topic(receiver.user);
    const bool comes_once = note.kind == Kind::plain && !note.retain && !entry.sent_again &&
                            !arrival.by_group && !is_kept_for_others;
    if (comes_once && !arrival.dup && receiver.received.contains(arrival.number))
        violated("{} got {} again without DUP", client, arrival.number);
}

/// One member gets it. If nothing is stored for that one, the publisher may send it again after a
/// crash as long as it is not answered, and then it is a new message.
void DeliveryModel::receive_by_group(const std::string& client, const Arrival& arrival) {
    const Entry& entry = notes_.at(arrival.number);
    const bool comes_once = arrival.qos == QoS::exactly_once && entry.note.kind != Kind::will;
    const unsigned before = by_group_[arrival.number];
    if (before > 0 && comes_once)
        violated("{} got {} after another member of its group", client, arrival.number);
    const bool is_stored = receivers_.at(client).kept && arrival.qos != QoS::at_most_once;
    if (is_stored || entry.acknowledged != never) ++by_group_[arrival.number];
}

/// First deliveries of one publisher to one topic keep their order, at each QoS. What was sent
/// before the session began comes by the inbox, or is a repetition.
void DeliveryModel::check_order(Receiver& receiver, const Entry& entry, Number number, QoS qos) {
    const Note& note = entry.note;
    if (note.kind != Kind::plain || entry.refused || !was_there(receiver, entry)) return;
    Number& latest = receiver.latest[{note.publisher, note.topic, note.qos, qos}];
    if (latest > number) violated("{} is late: {} was before it", number, latest);
    latest = number;
}

bool DeliveryModel::is_owed(const Entry& entry) const {
    return entry.acknowledged != never && entry.note.qos != QoS::at_most_once &&
           !entry.may_be_cancelled && !entry.cancelled && !entry.note.deletes;
}

bool DeliveryModel::must_get(const Receiver& receiver, const Entry& entry) const {
    return std::ranges::any_of(receiver.periods, [&](const Period& period) {
        return period.is_open() && period.sure != never && period.sure < entry.sent &&
               period.qos != QoS::at_most_once && !is_share(period.filter) &&
               matches(period.filter, entry.note.topic);
    });
}

void DeliveryModel::check_complete() const {
    for (Number number = 0; number < notes_.size(); ++number) {
        const Entry& entry = notes_[number];
        if (!is_owed(entry)) continue;
        if (entry.note.topic.starts_with("s/")) check_group(entry, number);
        for (const auto& [client, receiver] : receivers_)
            if (must_get(receiver, entry) && !receiver.received.contains(number))
                violated("{} to {} is lost for {}", number, entry.note.topic, client);
        if (entry.note.for_newcomer && entry.met.empty()) check_newcomer(entry, number);
        for (const std::string& client : entry.note.newcomers)
            if (!entry.met.contains(client) &&
                !receivers_.at(client).ever_received.contains(number))
                violated("{} to the room is lost for {}", number, client);
    }
}

/// One of its members, unless it was given to a member that may lose it: what is on its way at QoS
/// 2 ends with the member's session (MQTT 5.0, 4.8.2).
void DeliveryModel::check_group(const Entry& entry, Number number) const {
    bool is_sure = false;
    bool may_be_lost = false;
    for (const auto& [client, receiver] : receivers_)
        for (const Period& period : receiver.periods) {
            if (!is_share(period.filter)) continue;
            const bool is_lossy = period.qos == QoS::at_most_once || !receiver.kept;
            is_sure |= !is_lossy && period.is_open() && period.sure < entry.sent;
            const bool may_have_lost =
                period.ended_with_session && entry.note.qos == QoS::exactly_once;
            may_be_lost |= (is_lossy || may_have_lost) && period.end > entry.sent;
        }
    if (is_sure && !may_be_lost && !by_group_.contains(number))
        violated("{} to the shared subscription is lost", number);
}

void DeliveryModel::check_newcomer(const Entry& entry, Number number) const {
    for (const auto& [client, receiver] : receivers_)
        if (receiver.ever_received.contains(number)) return;
    violated("{} to {} is lost", number, entry.note.topic);
}

// -- retained messages --

std::set<std::string> DeliveryModel::retained_topics() const {
    std::set<std::string> topics;
    for (const Entry& entry : notes_)
        if (entry.note.retain) topics.insert(entry.note.topic);
    return topics;
}

void DeliveryModel::check_retained(const std::string& topic, std::optional<Number> value) const {
    bool is_right = !value;  // as long as none was acknowledged
    for (Number number = 0; number < notes_.size(); ++number) {
        const Entry& entry = notes_[number];
        if (!entry.note.retain || entry.note.topic != topic) continue;
        const bool is_this = entry.note.deletes ? !value : value == number;
        const bool must_be = entry.acknowledged != never;
        is_right = must_be ? is_this : is_right || is_this;
    }
    if (!is_right) violated("{} retains {}", topic, value ? std::to_string(*value) : "nothing");
}

}  // namespace pulsegate
