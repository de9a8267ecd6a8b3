#include "loadgen/kill/presence_book.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/units.h"

namespace pulsegate::kill {

namespace {

constexpr std::uint64_t most_faults = 10;  // faults of one sort

std::string_view word(bool online) { return online ? "online" : "offline"; }

}  // namespace

void PresenceBook::change(const std::string& user, std::optional<bool> online, Time now) {
    users_[user] = {online, now};
}

void PresenceBook::begin_watching(const std::string& name, bool anew, Time now) {
    Watcher& watcher = watchers_[name];
    watcher.watching_since = now;
    if (anew) watcher.online.clear();
}

void PresenceBook::end_watching(const std::string& watcher) {
    watchers_[watcher].watching_since.reset();
}

void PresenceBook::tell(const std::string& name, const std::string& user, State state, Time now) {
    ++told_;
    Watcher& watcher = watchers_[name];
    watcher.online[user] = state.online;
    State& highest = watcher.highest[user];
    if (state.version < highest.version)
        note(fallen_,
             fmt::format("version fell: {} was told that {} is {} at {}, after {}", name, user,
                         word(state.online), state.version, highest.version),
             now);
    else if (state.version == highest.version && state != highest)
        note(fallen_,
             fmt::format("version repeated: {} was told that {} is {} and {} at {}", name, user,
                         word(highest.online), word(state.online), state.version),
             now);
    else
        highest = state;
}

void PresenceBook::compare(Time now) {
    for (auto& [name, watcher] : watchers_)
        if (watcher.watching_since && now >= *watcher.watching_since + truth_after)
            compare(name, watcher, now);
}

void PresenceBook::compare(const std::string& name, Watcher& watcher, Time now) {
    for (const auto& [user, truth] : users_) {
        if (!truth.online || now < truth.since + truth_after) continue;
        const auto told = watcher.online.find(user);
        const bool online = told != watcher.online.end() && told->second;
        if (online == *truth.online) continue;
        Time& blamed = watcher.blamed[user];
        if (blamed == truth.since) continue;
        blamed = truth.since;
        note(untrue_,
             fmt::format("untrue: {} takes {} for {}, who has been {} for {}", name, user,
                         word(online), word(*truth.online), load::show(now - truth.since)),
             now);
    }
}

void PresenceBook::note(std::uint64_t& counter, const std::string& what, Time now) {
    if (++counter <= most_faults) faults_.push_back({"presence: " + what, now});
}

}  // namespace pulsegate::kill
