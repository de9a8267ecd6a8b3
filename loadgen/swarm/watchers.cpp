#include "loadgen/swarm/watchers.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr std::string_view presence_prefix = "presence/";

}  // namespace

Watchers::Watchers(SwarmState& state, const Profiles& profiles)
    : state_(state), profiles_(profiles), watching_(state.clients.size()) {
    const auto& assignment = state.assignment;
    const Roster& roster = state.roster;
    for (std::uint32_t watcher = 0; watcher < roster.clients(); ++watcher)
        for (const std::uint32_t watched : roster.watched_by(watcher))
            watch(watcher % assignment.workers, watched);
    if (assignment.target.events_file.empty()) return;
    for (const SwarmClient& client : state.clients) watch(assignment.worker, client.number());
}

void Watchers::watch(std::uint32_t worker, std::uint32_t watched) {
    const auto& assignment = state_.assignment;
    if (state_.roster.group(watched).hostile != Hostile::none) return;
    if (worker == assignment.worker) watched_.emplace(profiles_.presence_name(watched), watched);
    if (!state_.owns(watched)) return;
    auto& workers = watching_[watched / assignment.workers];
    if (std::ranges::find(workers, worker) == workers.end()) workers.push_back(worker);
}

std::vector<std::string> Watchers::filters_of(const SwarmClient& client) const {
    std::vector<std::string> filters;
    if (!state_.assignment.target.presence_topic) return filters;
    for (const std::uint32_t watched : state_.roster.watched_by(client.number()))
        filters.push_back(std::string(presence_prefix) + profiles_.presence_name(watched));
    return filters;
}

bool Watchers::received(const SwarmClient& client, const Publish& message, Time now) {
    if (!message.topic.starts_with(presence_prefix)) return false;
    const auto watched = client_of(message.topic.substr(presence_prefix.size()));
    const auto text = read_presence(message.payload);
    if (!watched || !text) {
        state_.at(now).add(Count::messages_damaged);
        state_.give_example(
            fmt::format("{} was told presence that it can't read or has not asked "
                        "for: {}",
                        who(client), message.topic));
        return true;
    }
    observed({client.number(), *watched, text->online, text->version, state_.common(now),
              message.retain, Presence::Source::topic},
             now);
    return true;
}

void Watchers::observed(const Presence::Observation& seen, Time now) {
    switch (presence_.observed(seen)) {
        case Presence::Order::news: state_.at(now).add(Count::presence_changes); return;
        case Presence::Order::repeated: return;
        case Presence::Order::out_of_order:
            state_.at(now).add(Count::presence_out_of_order);
            state_.give_example(
                fmt::format("client {} was told version {} of client {}'s presence "
                            "behind a later one",
                            seen.observer, seen.version, seen.client));
    }
}

std::optional<std::uint32_t> Watchers::client_of(std::string_view name) const {
    const auto found = watched_.find(std::string(name));
    return found == watched_.end() ? std::nullopt : std::optional(found->second);
}

void Watchers::tell(SwarmClient& client, Liveness::Kind kind, Time at) {
    const bool alive = kind == Liveness::Kind::online;
    if (client.alive_for_watchers == alive) return;
    client.alive_for_watchers = alive;
    if (watching_[client.number() / state_.assignment.workers].empty()) return;
    facts_.push_back({client.number(), kind, state_.common(at)});
}

/// Of each client that somebody here watches to the end. The events file tells of all.
std::unordered_map<std::uint32_t, Time> Watchers::watched_since() const {
    std::unordered_map<std::uint32_t, Time> since;
    if (!state_.assignment.target.events_file.empty())
        for (const auto& [name, client] : watched_) since[client] = Time::min();
    for (const SwarmClient& watcher : state_.clients) {
        if (!watcher.online()) continue;
        const Time begin = state_.common(watcher.online_since);
        for (const std::uint32_t client : state_.roster.watched_by(watcher.number())) {
            const auto known = since.emplace(client, begin).first;
            known->second = std::min(known->second, begin);
        }
    }
    return since;
}

void Watchers::judge(Time now) {
    if (presence_.nothing_observed()) {
        if (!watched_.empty())
            state_.notes.push_back("the server shows nobody's presence: it is not checked");
        return;
    }
    const Duration slack = state_.closes.tick + state_.closes.tolerance;
    const auto since = watched_since();
    const auto bounds_of = [&](std::uint32_t client) {
        const Group& group = state_.roster.group(client);
        const auto found = since.find(client);
        return Presence::Bounds{state_.scenario().limit_of(group) + slack, slack,
                                found == since.end() ? Time::max() : found->second};
    };
    const auto verdict = presence_.judge(state_.common(now), bounds_of);
    Measurements& sum = state_.at(now);
    for (const Duration took : verdict.detections) sum.add(Timing::detection, took);
    for (const Duration took : verdict.appearances) sum.add(Timing::appearance, took);

    using Kind = Presence::Verdict::Fault::Kind;
    for (const auto& fault : verdict.faults) {
        const Time at = state_.local(fault.at);
        const char* what = "";
        switch (fault.kind) {
            case Kind::false_offline:
                sum.add(Count::presence_false_offline);
                what = "was alive and shown as offline";
                break;
            case Kind::ghost:
                sum.add(Count::presence_ghosts);
                what = "was gone and shown as online beyond its limit";
                break;
            case Kind::missing:
                sum.add(Count::presence_missing);
                what = "was never shown as online after its login";
                break;
        }
        state_.give_example(fmt::format("client {} {}, {} after the start", fault.client, what,
                                        show(at - state_.started)));
    }
}

}  // namespace pulsegate::load
