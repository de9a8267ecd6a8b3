#include "loadgen/torture/book.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "loadgen/units.h"

namespace pulsegate::torture {

namespace {

constexpr std::size_t most_described = 10;  // faults of one sort

bool is_ordered(Kind kind) { return kind == Kind::qos_1 || kind == Kind::qos_2; }

}  // namespace

Book::Entry* Book::find(const Message& message) {
    const auto sheet = sheets_.find(message.stream);
    if (sheet == sheets_.end()) return nullptr;
    auto& entries = sheet->second.entries;
    if (message.number == 0 || message.number > entries.size()) return nullptr;
    return &entries[message.number - 1];
}

Message Book::send(const Stream& stream, Time now, Duration delay) {
    auto& entries = sheets_[stream].entries;
    entries.push_back({.sent = now, .delay = delay});
    const Message message{stream, static_cast<std::uint32_t>(entries.size())};
    ++of(message).sent;
    return message;
}

void Book::acknowledge(const Message& message, Time now) {
    Entry& entry = *find(message);
    if (entry.fate != Fate::open) return;
    entry.fate = Fate::acknowledged;
    entry.acknowledged = now;
    ++of(message).acknowledged;
    last_due_ = std::max(last_due_, now + entry.delay);
    if (message.stream.kind == Kind::retained)
        sheets_[message.stream].latest = message.number;
    else if (entry.times_received == 0)
        ++of(message).lost;
}

void Book::refuse(const Message& message) {
    find(message)->fate = Fate::refused;
    ++of(message).refused;
}

void Book::give_up(const Message& message) {
    find(message)->fate = Fate::unknown;
    ++of(message).unknown;
}

void Book::receive(const Message& message, std::uint16_t receiver, Time now, Time connected_since) {
    last_arrival_ = now;
    Entry* entry = find(message);
    if (!entry || message.stream.to != receiver)
        return note_fault(
            fmt::format("receiver {} got what was not sent to it: {}", receiver, describe(message)),
            now);
    if (message.stream.kind == Kind::delayed) judge_time(message, *entry, now, connected_since);
    if (++entry->times_received > 1) {
        ++of(message).repeated;
        if (message.stream.kind == Kind::qos_2) describe_fault("repeated", describe(message), now);
        return;
    }
    ++of(message).received;
    if (entry->fate == Fate::acknowledged) --of(message).lost;
    if (is_ordered(message.stream.kind)) judge_order(message, now);
}

void Book::judge_order(const Message& message, Time now) {
    auto& latest = sheets_[message.stream].latest;
    if (message.number > latest) {
        latest = message.number;
        return;
    }
    ++of(message).out_of_order;
    describe_fault("out of order", fmt::format("{} after {}", describe(message), latest), now);
}

void Book::judge_time(const Message& message, const Entry& entry, Time now, Time connected_since) {
    if (const auto due = entry.sent + entry.delay; now + early_tolerance < due) {
        ++of(message).early;
        describe_fault("early", fmt::format("{} by {}", describe(message), load::show(due - now)),
                       now);
    }
    if (entry.fate != Fate::acknowledged || entry.times_received > 0) return;
    const auto lateness = now - std::max(entry.acknowledged + entry.delay, connected_since);
    of(message).latest = std::max(of(message).latest, lateness);
    if (lateness > late_after) ++of(message).late;
}

std::map<Stream, std::uint32_t> Book::acknowledged_values() const {
    std::map<Stream, std::uint32_t> values;
    for (const auto& [stream, sheet] : sheets_)
        if (stream.kind == Kind::retained && sheet.latest > 0) values[stream] = sheet.latest;
    return values;
}

void Book::read_value(const Message& value, std::uint32_t least, Time now) {
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

void Book::lose_session(const std::string& client, Time now) {
    ++sessions_lost_;
    describe_fault("session lost", client, now);
}

void Book::begin_order_anew(std::uint16_t receiver) {
    for (auto& [stream, sheet] : sheets_)
        if (stream.to == receiver && is_ordered(stream.kind)) sheet.latest = 0;
}

void Book::note_fault(const std::string& what, Time now) {
    ++other_faults_;
    describe_fault("breach", what, now);
}

void Book::describe_fault(const char* sort, const std::string& what, Time at) {
    auto& faults = faults_[sort];
    if (faults.size() < most_described) faults.push_back({fmt::format("{}: {}", sort, what), at});
}

std::uint64_t Book::missing() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Counts& each) { return sum + each.lost; }) -
           counts(Kind::retained).lost;
}

bool Book::kept() const {
    const bool kinds_kept = std::all_of(counts_.begin(), counts_.end(), [](const Counts& each) {
        return each.lost == 0 && each.out_of_order == 0 && each.early == 0;
    });
    return kinds_kept && counts(Kind::qos_2).repeated == 0 && sessions_lost_ == 0 &&
           other_faults_ == 0;
}

std::vector<Fault> Book::faults() const {
    std::vector<Fault> lost;
    for (const auto& [stream, sheet] : sheets_) {
        if (stream.kind == Kind::retained) continue;
        for (std::uint32_t number = 1; number <= sheet.entries.size(); ++number) {
            const Entry& entry = sheet.entries[number - 1];
            if (entry.fate == Fate::acknowledged && entry.times_received == 0)
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

}  // namespace pulsegate::torture
