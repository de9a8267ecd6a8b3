#include "loadgen/kill/presence_checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/units.h"

namespace pulsegate::kill {

namespace {

constexpr std::uint64_t most_faults = 10;  // faults of one sort

using namespace std::chrono_literals;

constexpr Duration time_for_row = 1200ms;   // a change this long before a kill has been stored
constexpr Duration time_for_login = 100ms;  // a watcher may hear of a login before the client
constexpr auto clear_of_limit = 500ms;      // back this long before the limit counts as in time

std::string_view word(bool online) { return online ? "online" : "offline"; }

}  // namespace

void PresenceChecker::change(const std::string& name, std::optional<bool> online, Time now,
                             Duration limit) {
    User& user = users_[name];
    const bool ends = online == false;
    if (user.grace == Grace::sure && !ends)
        user.grace = is_early_enough(user, now) ? Grace::back : Grace::none;
    else if (ends ? user.grace == Grace::back : user.grace == Grace::perhaps)
        user.grace = Grace::none;
    user.online = online;
    user.since = now;
    user.limit = limit;
}

bool PresenceChecker::is_early_enough(const User& user, Time now) const {
    return is_down_ || now + clear_of_limit < user.started + user.limit;
}

void PresenceChecker::broker_killed(Time now) {
    for (auto& [name, user] : users_) {
        user.grace = grace_after_kill(user, now);
        user.online_at = user.latest.version;
    }
    is_down_ = true;
}

PresenceChecker::Grace PresenceChecker::grace_after_kill(const User& user, Time now) const {
    if (user.grace == Grace::back) return user.latest.online ? Grace::sure : Grace::perhaps;
    if (user.grace == Grace::sure && is_early_enough(user, now)) return Grace::sure;
    const bool is_written_down = user.since + time_for_row * slowness_ <= now;
    if (user.online == true && is_written_down) {
        // Otherwise it is not known which version the login has, and which versions are older.
        const bool is_told =
            user.latest.online && user.latest_at + time_for_login * slowness_ >= user.since;
        return is_told ? Grace::sure : Grace::perhaps;
    }
    if (user.online != false || !is_written_down) return Grace::perhaps;
    const bool may_wait = is_down_ || now < grace_end(user) + time_for_row * slowness_;
    return user.grace != Grace::none && may_wait ? Grace::perhaps : Grace::none;
}

void PresenceChecker::broker_stopped() {
    for (auto& [name, user] : users_) user.grace = Grace::none;
    is_down_ = true;
}

void PresenceChecker::broker_serves(Time started, Time now) {
    is_down_ = false;
    for (auto& [name, user] : users_) {
        user.started = started;
        user.serves = now;
    }
}

void PresenceChecker::edge_killed(const std::set<std::string>& users, Time now) {
    for (const auto& name : users) {
        User& user = users_[name];
        user.grace = grace_after_kill(user, now);
        user.online_at = user.latest.version;
        user.started = user.serves = now;
    }
}

Time PresenceChecker::settled() const {
    Time settled{};
    for (const auto& [name, user] : users_)
        if (user.grace != Grace::none && user.online == false)
            settled = std::max(settled, grace_end(user) + truth_after * slowness_);
    return settled;
}

void PresenceChecker::begin_watching(const std::string& name, bool anew, Time now) {
    Watcher& watcher = watchers_[name];
    watcher.watching_since = now;
    if (anew) watcher.online.clear();
}

void PresenceChecker::end_watching(const std::string& watcher) {
    watchers_[watcher].watching_since.reset();
}

void PresenceChecker::tell(const std::string& name, const std::string& user, State state, Time now,
                           bool is_duplicate) {
    ++told_;
    Watcher& watcher = watchers_[name];
    watcher.online[user] = state.online;
    judge_grace(name, user, state, now);
    auto& versions = watcher.told[user];
    const State highest = versions.empty() ? State() : versions.rbegin()->second;
    const auto [known, is_first] = versions.emplace(state.version, state);
    if (is_duplicate && !is_first && known->second == state) return;
    if (state.version < highest.version)
        note(
            fallen_,
            fmt::format("version fell: {} was told that {} is {} at {}, after {} at {}", name, user,
                        word(state.online), state.version, word(highest.online), highest.version),
            now);
    else if (state.version == highest.version && state != highest)
        note(fallen_,
             fmt::format("version repeated: {} was told that {} is {} and {} at {}", name, user,
                         word(highest.online), word(state.online), state.version),
             now);
}

/// Reports that are older than the kill may still be on their way to a watcher.
void PresenceChecker::judge_grace(const std::string& watcher, const std::string& name, State state,
                                  Time now) {
    User& user = users_[name];
    const bool is_new = state.version > user.online_at;
    const bool is_in_time =
        user.grace == Grace::back ||
        (user.grace == Grace::sure && (is_down_ || now < user.started + user.limit));
    if (!state.online && is_new && is_in_time) {
        // In a stall, a CONNECT may have been sent later than it was noted.
        if (stalls_.before(now) < clear_of_limit)
            note(offline_in_time_,
                 fmt::format("offline in time: {} was told that {} is offline, who was online when "
                             "the broker was killed, and had time to come back",
                             watcher, name),
                 now);
        user.grace = Grace::none;
    }
    if (state.version < user.latest.version) return;
    user.latest = state;
    user.latest_at = now;
}

void PresenceChecker::compare(Time now) {
    for (auto& [name, watcher] : watchers_)
        if (watcher.watching_since && now >= *watcher.watching_since + time_for_truth(now))
            compare(name, watcher, now);
}

void PresenceChecker::compare(const std::string& name, Watcher& watcher, Time now) {
    for (const auto& [user, known] : users_) {
        const auto truth = this->truth(known, now);
        if (!truth || now < truth->since + time_for_truth(now)) continue;
        const auto told = watcher.online.find(user);
        const bool online = told != watcher.online.end() && told->second;
        if (online == truth->online) continue;
        Time& blamed = watcher.blamed[user];
        if (blamed == truth->since) continue;
        blamed = truth->since;
        note(untrue_,
             fmt::format("untrue: {} takes {} for {}, who has been {} for {}", name, user,
                         word(online), word(truth->online), load::show(now - truth->since)),
             now);
    }
}

/// The state that watchers must be told. Nothing if either state is right.
std::optional<PresenceChecker::Truth> PresenceChecker::truth(const User& user, Time now) const {
    if (!user.online) return std::nullopt;
    const bool is_cut_off = !*user.online && user.grace != Grace::none;
    if (!is_cut_off) return Truth{*user.online, user.since};
    if (is_down_) return std::nullopt;
    if (now > grace_end(user)) return Truth{false, std::max(user.since, grace_end(user))};
    if (user.grace != Grace::sure || now > user.started + user.limit) return std::nullopt;
    return Truth{true, user.serves};
}

void PresenceChecker::note(std::uint64_t& counter, const std::string& what, Time now) {
    if (++counter <= most_faults) faults_.push_back({load::printable("presence: " + what), now});
}

}  // namespace pulsegate::kill
