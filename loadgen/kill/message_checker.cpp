#include "loadgen/kill/message_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "loadgen/units.h"

namespace pulsegate::kill {

namespace {

constexpr std::size_t most_described = 10;  // faults of one sort

bool may_expire(Duration lifetime) { return lifetime > Duration() && lifetime < outlives_the_run; }

}  // namespace

MessageChecker::Entry* MessageChecker::find(const Message& message) {
    const auto record = streams_.find(message.stream);
    if (record == streams_.end()) return nullptr;
    auto& entries = record->second.entries;
    if (message.number == 0 || message.number > entries.size()) return nullptr;
    return &entries[message.number - 1];
}

Message MessageChecker::send(const Stream& stream, Time now, const Terms& terms) {
    auto& entries = streams_[stream].entries;
    const Time due = stream.kind == Kind::will ? Time::max() : now + terms.delay;
    entries.push_back({.sent = now, .due = due, .delay = terms.delay, .lifetime = terms.lifetime});
    const Message message{stream, static_cast<std::uint32_t>(entries.size())};
    ++of(message).sent;
    return message;
}

void MessageChecker::send_again(const Message& message) { find(message)->sent_again = true; }

void MessageChecker::acknowledge(const Message& message, Time now) {
    Entry& entry = *find(message);
    if (entry.outcome != Outcome::open) return;
    entry.outcome = Outcome::acknowledged;
    entry.acknowledged = now;
    ++of(message).acknowledged;
    entry.promised = is_promised(message, entry);
    last_due_ = std::max(last_due_, now + entry.delay);
    if (message.stream.kind == Kind::retained)
        streams_[message.stream].latest = message.number;
    else if (entry.promised && entry.times_received == 0)
        ++of(message).lost;
}

bool MessageChecker::is_promised(const Message& message, const Entry& entry) const {
    if (may_expire(entry.lifetime)) return false;
    const auto guest = known_away_since_.find(message.stream.to);
    if (guest == known_away_since_.end() || message.stream.kind == Kind::retained) return true;
    return guest->second && *guest->second <= entry.sent;
}

void MessageChecker::keep_no_session(std::uint16_t receiver, std::optional<Time> known_away_since) {
    known_away_since_[receiver] = known_away_since;
}

void MessageChecker::refuse(const Message& message) {
    find(message)->outcome = Outcome::refused;
    ++of(message).refused;
}

void MessageChecker::give_up(const Message& message) {
    find(message)->outcome = Outcome::unknown;
    ++of(message).unknown;
}

void MessageChecker::begin_will(const Message& will, Time due) { find(will)->due = due; }

void MessageChecker::take_back(const Message& will, Time now) {
    Entry& entry = *find(will);
    entry.outcome = Outcome::taken_back;
    if (entry.times_received > 0) note_unwanted(will, now);
}

void MessageChecker::step_clock(Duration by, Time now) {
    if (by > Duration()) put_forward_ = now;
    if (by < Duration()) put_back_ = now;
}

void MessageChecker::receive(const Message& message, const Arrival& arrival) {
    last_arrival_ = arrival.at;
    Entry* entry = find(message);
    if (!entry || message.stream.to != arrival.receiver)
        return note_fault(fmt::format("receiver {} got what was not sent to it: {}",
                                      arrival.receiver, describe(message)),
                          arrival.at);
    judge_early(message, *entry, arrival.at);
    if (++entry->times_received > 1) {
        ++of(message).repeated;
        if (!is_wrong_repetition(message, *entry, arrival)) return;
        ++of(message).wrongly_repeated;
        return describe_fault("repeated", describe(message), arrival.at);
    }
    ++of(message).received;
    if (entry->promised) --of(message).lost;
    if (entry->outcome == Outcome::taken_back) note_unwanted(message, arrival.at);
    if (message.stream.kind == Kind::shared)
        holders_[message] = {arrival.member, arrival.connected_since};
    judge_late(message, *entry, arrival);
    judge_outdated(message, *entry, arrival);
    // An earlier copy may have expired. Then only the repeated copy arrives, and it arrives late.
    const bool may_be_a_copy = entry->sent_again && may_expire(entry->lifetime);
    if (is_ordered(message.stream.kind) && !may_be_a_copy) judge_order(message, arrival.at);
}

bool MessageChecker::is_wrong_repetition(const Message& message, const Entry& entry,
                                         const Arrival& arrival) const {
    if (qos_of(message) == QoS::exactly_once) return arrival.session_kept;
    if (entry.sent_again) return false;
    const auto holder = holders_.find(message);
    if (holder == holders_.end()) return false;
    const auto member = members_.find(holder->second.member);
    return member != members_.end() && member->second == holder->second.connected_since;
}

void MessageChecker::judge_order(const Message& message, Time now) {
    auto& latest = streams_[message.stream].latest;
    if (message.number > latest) {
        latest = message.number;
        return;
    }
    ++of(message).out_of_order;
    describe_fault("out of order", fmt::format("{} after {}", describe(message), latest), now);
}

void MessageChecker::judge_early(const Message& message, const Entry& entry, Time now) {
    const bool is_will = message.stream.kind == Kind::will;
    if (message.stream.kind != Kind::delayed && !is_will) return;
    if (now + early_tolerance >= entry.due || put_forward_ > entry.sent) return;
    ++of(message).early;
    const auto how = entry.due == Time::max() ? "while its client was connected"
                                              : "by " + load::show(entry.due - now);
    describe_fault("early", fmt::format("{} {}", describe(message), how), now);
}

void MessageChecker::judge_late(const Message& message, const Entry& entry,
                                const Arrival& arrival) {
    if (message.stream.kind != Kind::delayed || entry.outcome != Outcome::acknowledged ||
        put_back_ > entry.sent)
        return;
    const auto due = entry.acknowledged + entry.delay;
    const auto lateness = arrival.at - std::max(due, arrival.connected_since);
    of(message).latest = std::max(of(message).latest, lateness);
    if (lateness > late_after) ++of(message).late;
}

/// If the delivery of a message began before the message expired, it may arrive later (MQTT 5.0,
/// 3.3.2.3.3). So a message with DUP is not judged.
void MessageChecker::judge_outdated(const Message& message, const Entry& entry,
                                    const Arrival& arrival) {
    if (entry.lifetime == Duration() || entry.outcome != Outcome::acknowledged || arrival.dup ||
        put_back_ > entry.sent)
        return;
    const auto age = arrival.at - entry.acknowledged;
    if (age <= entry.lifetime + outdated_after + own_delay(arrival.at)) return;
    ++of(message).outdated;
    describe_fault("outdated",
                   fmt::format("{} came after {} and was to live for {}", describe(message),
                               load::show(age), load::show(entry.lifetime)),
                   arrival.at);
}

void MessageChecker::note_unwanted(const Message& will, Time now) {
    ++of(will).unwanted;
    describe_fault("unwanted", describe(will), now);
}

std::map<Stream, std::uint32_t> MessageChecker::acknowledged_values() const {
    std::map<Stream, std::uint32_t> values;
    for (const auto& [stream, record] : streams_)
        if (stream.kind == Kind::retained && record.latest > 0) values[stream] = record.latest;
    return values;
}

void MessageChecker::read_value(const Message& value, std::uint32_t least, Time now) {
    if (value.number > 0 && !find(value))
        return note_fault("a value that was never set: " + describe(value), now);
    if (value.number >= least) {
        ++of(value).received;
        return;
    }
    ++of(value).lost;
    describe_fault(
        "lost",
        fmt::format("{}; the one that is there: {}", describe({value.stream, least}), value.number),
        now);
}

void MessageChecker::lose_session(const std::string& client, Time now) {
    ++sessions_lost_;
    describe_fault("session lost", client, now);
}

void MessageChecker::begin_order_anew(std::uint16_t receiver) {
    for (auto& [stream, record] : streams_)
        if (stream.to == receiver && is_ordered(stream.kind)) record.latest = 0;
}

void MessageChecker::note_fault(const std::string& what, Time now) {
    ++other_faults_;
    describe_fault("breach", load::printable(what), now);
}

void MessageChecker::describe_fault(const char* sort, const std::string& what, Time at) {
    auto& faults = faults_[sort];
    if (faults.size() < most_described) faults.push_back({fmt::format("{}: {}", sort, what), at});
}

std::uint64_t MessageChecker::missing() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Counts& each) { return sum + each.lost; }) -
           counts(Kind::retained).lost;
}

std::vector<Fault> MessageChecker::faults() const {
    std::vector<Fault> lost;
    for (const auto& [stream, record] : streams_) {
        if (stream.kind == Kind::retained) continue;
        for (std::uint32_t number = 1; number <= record.entries.size(); ++number) {
            const Entry& entry = record.entries[number - 1];
            if (entry.promised && entry.times_received == 0)
                lost.push_back({"lost: " + describe({stream, number}), entry.acknowledged});
        }
    }
    const auto by_time = [](const Fault& a, const Fault& b) { return a.at < b.at; };
    std::sort(lost.begin(), lost.end(), by_time);
    if (lost.size() > most_described) lost.resize(most_described);
    for (const auto& [sort, faults] : faults_)
        lost.insert(lost.end(), faults.begin(), faults.end());
    std::sort(lost.begin(), lost.end(), by_time);
    return lost;
}

}  // namespace pulsegate::kill
