#include "loadgen/swarm/watchers.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr std::string_view presence_prefix = "presence/";

std::uint64_t pair_of(std::uint32_t watcher, std::uint32_t user) {
    return std::uint64_t{watcher} << 32 | user;
}

}  // namespace

Watchers::Watchers(SwarmState& state, const Profiles& profiles)
    : state_(state), profiles_(profiles) {
    find_doubtful_users();
    const auto& assignment = state.assignment;
    const std::uint32_t clients = state.roster.clients();
    for (std::uint32_t watcher = 0; watcher < clients; ++watcher)
        for (const std::uint32_t user : users_watched_by(watcher)) {
            watch(watcher % assignment.workers, user);
            if (state.owns(watcher) && assignment.target.presence_topic)
                pairs_.insert(pair_of(watcher, user));
        }
    if (assignment.target.events_file.empty()) return;
    for (std::uint32_t client = 0; client < clients; ++client)
        if (const auto user = profiles.user_of(client); !doubtful_.contains(user))
            watch(user % assignment.workers, user);
}

void Watchers::find_doubtful_users() {
    const Roster& roster = state_.roster;
    for (std::uint32_t client = 0; client < roster.clients(); ++client) {
        const auto user = profiles_.user_of(client);
        if (roster.group(client).hostile != Hostile::none || !roster.same_server(client, user))
            doubtful_.insert(user);
    }
}

void Watchers::watch(std::uint32_t worker, std::uint32_t user) {
    if (worker == state_.assignment.worker) watched_.emplace(profiles_.presence_name(user), user);
    auto& workers = watching_[user];
    if (std::ranges::find(workers, worker) == workers.end()) workers.push_back(worker);
}

/// Each user is listed once, even if the watcher watches several of the user's clients.
std::vector<std::uint32_t> Watchers::users_watched_by(std::uint32_t watcher) const {
    std::vector<std::uint32_t> users;
    for (const std::uint32_t client : state_.roster.watched_by(watcher))
        if (const auto user = profiles_.user_of(client); !doubtful_.contains(user))
            users.push_back(user);
    std::ranges::sort(users);
    users.erase(std::unique(users.begin(), users.end()), users.end());
    return users;
}

std::vector<std::string> Watchers::filters_of(const SwarmClient& client) const {
    std::vector<std::string> filters;
    if (!state_.assignment.target.presence_topic) return filters;
    for (const std::uint32_t user : users_watched_by(client.number()))
        filters.push_back(std::string(presence_prefix) + profiles_.presence_name(user));
    return filters;
}

bool Watchers::watches(const SwarmClient& client, std::uint32_t user) const {
    return pairs_.contains(pair_of(client.number(), user));
}

void Watchers::came(const SwarmClient& client, Time now) {
    if (!state_.assignment.target.presence_topic || client.lacks_filters) return;
    if (state_.roster.watched_by(client.number()).empty()) return;
    // A kept session gets the messages that wait for it first, and presence comes in windows.
    constexpr std::size_t few = 256;
    const bool takes_long = now < state_.measured_since() || state_.resumed(client) ||
                            state_.roster.watched_by(client.number()).size() > few;
    const Time since = state_.common(now);
    newcomers_.push({.due = since + (takes_long ? Presence::settling : login_slack()),
                     .told_before = since - login_slack(),
                     .connected = state_.common(client.mqtt.tcp_connected_at()),
                     .client = client.number(),
                     .stay = client.attendance.stay()});
}

void Watchers::turn(Time now) {
    if (state_.broken() != broken_) {
        broken_ = state_.broken();
        broken_at_ = state_.common(now);
    }
    const Time until = read_until(now);
    for (; !newcomers_.empty() && newcomers_.top().due <= until; newcomers_.pop())
        judge_first(newcomers_.top(), now);
}

/// A server that has broken connections may have crashed, and may not know older states any more.
void Watchers::judge_first(const Newcomer& newcomer, Time now) {
    using Answer = Presence::FirstAnswer;
    const SwarmClient& client = state_.client(newcomer.client);
    if (!client.online() || client.attendance.stay() != newcomer.stay) return;
    for (const std::uint32_t user : users_watched_by(client.number())) {
        const auto answer =
            presence_.first_answer({client.number(), newcomer.connected, state_.resumed(client)},
                                   user, broken_at_, newcomer.told_before);
        if (answer == Answer::right) continue;
        state_.at(now).add(Count::presence_outdated);
        state_.give_example(
            fmt::format("{} came {} after the start, and was told {} of client {}", who(client),
                        show(state_.local(newcomer.connected) - state_.started()),
                        answer == Answer::old ? "an old state" : "nothing of the state", user));
    }
}

bool Watchers::received(const SwarmClient& client, const Publish& message, Time now) {
    if (!message.topic.starts_with(presence_prefix)) return false;
    const auto watched = user_of(message.topic.substr(presence_prefix.size()));
    if (!watched || !watches(client, *watched)) {
        state_.at(now).add(Count::messages_misdirected);
        state_.give_example(fmt::format("{} was told presence that it has not asked for: {}",
                                        who(client), message.topic));
        return true;
    }
    const auto text = read_presence(message.payload);
    if (!text) {
        damaged(client, message, "it can't be read", now);
        return true;
    }
    check(client, *watched, message, *text, now);
    const Time since = client.online() ? state_.common(client.online_since) : Time::max();
    observed(
        {client.number(), *watched, text->online, text->version, state_.common(now), message.retain,
         since, message.dup, delay_at(now), may_have_waited(client, now), true},
        now);
    return true;
}

void Watchers::damaged(const SwarmClient& client, const Publish& message, std::string_view what,
                       Time now) {
    state_.at(now).add(Count::messages_damaged);
    state_.give_example(
        fmt::format("{} was told presence in {}: {}", who(client), message.topic, what));
}

/// A Pulsegate sends presence at QoS 1, or at the granted QoS if that is lower. A state may have
/// RETAIN at any time, because a watcher that was slow is told the latest states like that.
void Watchers::check(const SwarmClient& client, std::uint32_t user, const Publish& message,
                     const PresenceText& text, Time now) {
    const auto right = [](QoS granted) { return std::min(granted, QoS::at_least_once); };
    const auto& grants = client.presence_granted;
    if (grants && (message.qos < right(grants->least) || message.qos > right(grants->most)))
        damaged(client, message, fmt::format("QoS {}", static_cast<int>(message.qos)), now);
    if (message.dup && !state_.resumed(client))
        damaged(client, message, "DUP, and it was never sent before", now);
    if (lacks_retain(client, user, message, text))
        damaged(client, message, "a state from before its subscription, without RETAIN", now);
    if (!message.properties.empty())
        damaged(client, message, "properties that presence does not have", now);
    if (const std::string fault = fault_of(text, profiles_.presence_name(user)); !fault.empty())
        damaged(client, message, fault, now);
    else if (const auto* stranger = stranger_in(text, user))
        damaged(client, message, fmt::format("{} is a client of another user", *stranger), now);
}

// MQTT-3.3.1-8: what is sent because of a new subscription has RETAIN.
bool Watchers::lacks_retain(const SwarmClient& client, std::uint32_t user, const Publish& message,
                            const PresenceText& text) const {
    if (message.retain || message.dup || !client.online()) return false;
    if (state_.resumed(client) || state_.assignment.target.cluster) return false;
    const Time since = state_.common(client.online_since) - state_.closes.tick;
    return presence_.was_told(user, text.version, since);
}

/// A listed device that is a client of this run, but of another user; null if there is none.
const std::string* Watchers::stranger_in(const PresenceText& text, std::uint32_t user) const {
    const auto is_stranger = [&](const std::string& device) {
        const auto number = profiles_.number_of(device);
        return number && *number < state_.roster.clients() && profiles_.user_of(*number) != user;
    };
    const auto found = std::ranges::find_if(text.devices, is_stranger);
    return found == text.devices.end() ? nullptr : &*found;
}

Duration Watchers::slack() const { return state_.closes.tick + state_.closes.tolerance; }

/// After a storm, and between nodes, logins may be shown later.
Duration Watchers::login_slack() const {
    const bool is_slower =
        state_.assignment.target.cluster ||
        std::ranges::any_of(state_.scenario().groups, [](const Group& its) { return its.storm; });
    return is_slower ? Presence::settling : slack();
}

/// Later reports may be unread, or late because of the generator.
Time Watchers::read_until(Time now) const {
    const Time read = std::min(now, state_.loop.seen_until());
    return state_.common(read - state_.own_delay(read));
}

/// How long an event that is read now may have waited because of the generator.
Duration Watchers::delay_at(Time now) const {
    const Duration blind = now - state_.loop.seen_until();
    return (blind > stall_limit ? blind : Duration::zero()) + state_.own_delay(now);
}

/// In a kept session, a report may have waited while the client was away.
bool Watchers::may_have_waited(const SwarmClient& client, Time now) const {
    return state_.resumed(client) &&
           (!client.online() || now - client.online_since <= Presence::settling);
}

void Watchers::observed(const Presence::Observation& seen, Time now) {
    switch (presence_.observed(seen)) {
        case Presence::Order::news: state_.at(now).add(Count::presence_changes); return;
        case Presence::Order::repeated: return;
        case Presence::Order::contradiction:
            state_.at(now).add(Count::presence_contradicted);
            state_.give_example(fmt::format(
                "client {} was told that client {} is {}, and another state was told "
                "for the same version {}",
                seen.observer, seen.user, seen.online ? "online" : "offline", seen.version));
            return;
        case Presence::Order::out_of_order:
            state_.at(now).add(Count::presence_out_of_order);
            state_.give_example(
                fmt::format("client {} was told version {} of client {}'s presence "
                            "behind a later one",
                            seen.observer, seen.version, seen.user));
    }
}

std::optional<std::uint32_t> Watchers::user_of(std::string_view name) const {
    const auto found = watched_.find(std::string(name));
    return found == watched_.end() ? std::nullopt : std::optional(found->second);
}

void Watchers::online(SwarmClient& client, Moment at) {
    tell(client, Liveness::Kind::online, at, at.after - at.before);
}

void Watchers::left(SwarmClient& client, Moment at) {
    tell(client, Liveness::Kind::gone, at, at.after - at.before);
}

void Watchers::lost(SwarmClient& client, Moment at) {
    tell(client, Liveness::Kind::gone, at, std::max(state_.limit_of(client), at.after - at.before));
}

void Watchers::fell_silent(SwarmClient& client, Moment at) {
    const Duration limit = state_.limit_of(client);
    const bool endless = limit == Duration::zero();
    tell(client, Liveness::Kind::silent, at, endless ? limit : limit + (at.after - at.before));
}

void Watchers::tried(const SwarmClient& client) {
    if (client.mqtt.before_send() == Time()) return;
    if (!watching_.contains(profiles_.user_of(client.number()))) return;
    facts_.push_back({client.number(), Liveness::Kind::tried,
                      state_.common(client.mqtt.connecting_since()), Duration::zero()});
}

void Watchers::tell(SwarmClient& client, Liveness::Kind kind, Moment at, Duration limit) {
    const bool alive = kind == Liveness::Kind::online;
    if (client.alive_for_watchers == alive) return;
    client.alive_for_watchers = alive;
    client.alive_changed = at.after;
    if (!watching_.contains(profiles_.user_of(client.number()))) return;
    facts_.push_back({client.number(), kind, state_.common(at.before), limit});
}

/// Since when each user has been watched by a client that watches to the end. The events file shows
/// all users from the start.
std::unordered_map<std::uint32_t, Time> Watchers::watched_since() const {
    std::unordered_map<std::uint32_t, Time> since;
    if (!state_.assignment.target.events_file.empty())
        for (const auto& [name, user] : watched_) since[user] = Time::min();
    for (const SwarmClient& watcher : state_.clients) {
        if (!watcher.online() || watcher.lacks_filters) continue;
        const Time begin = state_.common(watcher.online_since);
        for (const std::uint32_t user : users_watched_by(watcher.number())) {
            const auto known = since.emplace(user, begin).first;
            known->second = std::min(known->second, begin);
        }
    }
    return since;
}

/// Judges the last reports to watchers that are online at the end.
void Watchers::judge_last(Time until, Presence::Verdict& verdict) const {
    if (!state_.assignment.target.presence_topic) return;
    for (const SwarmClient& watcher : state_.clients) {
        if (!watcher.online() || watcher.lacks_filters) continue;
        for (const std::uint32_t user : users_watched_by(watcher.number()))
            presence_.judge_last(watcher.number(), user, state_.common(watcher.online_since), until,
                                 slack(), verdict);
    }
}

void Watchers::judge(Time now) {
    turn(now);
    const auto since = watched_since();
    const Time measured = state_.measured_since();  // before that, the server may be overloaded
    const Time settled = measured == Time::max() ? measured : state_.common(measured);
    const auto bounds_of = [&](std::uint32_t user) {
        const auto found = since.find(user);
        return Presence::Bounds{
            .slack = slack(),
            .login_slack = login_slack(),
            .settled_since = settled,
            .watched_since = found == since.end() ? Time::max() : found->second};
    };
    const Time until = read_until(now);
    auto verdict = presence_.judge(until, bounds_of);
    judge_last(until, verdict);
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
            case Kind::false_online:
                sum.add(Count::presence_ghosts);
                what = "was gone and shown as online again";
                break;
            case Kind::ghost:
                sum.add(Count::presence_ghosts);
                what = "was gone and shown as online beyond its limit";
                break;
            case Kind::missing:
                sum.add(Count::presence_missing);
                what = "was never shown as online after its login";
                break;
            case Kind::shown_late:
                sum.add(Count::presence_late);
                what = "was shown as online late after its login";
                break;
            case Kind::unseen:
                sum.add(Count::presence_unseen);
                what = "was online, and shown to nobody during the whole run; its login was";
                break;
            case Kind::hidden:
                sum.add(Count::presence_missing);
                what = "changed its presence, and one watcher was not told";
                break;
            case Kind::late:
                sum.add(Count::presence_missing);
                what = "changed its presence, and one watcher was told more than 10 s later";
                break;
        }
        // If the server has no presence, watchers are shown nothing. A check reports that.
        if (presence_.nothing_observed()) continue;
        std::string text = fmt::format("client {} {}, {} after the start", fault.user, what,
                                       show(at - state_.started()));
        if (fault.kind == Kind::hidden || fault.kind == Kind::late)
            text += fmt::format(": client {}", fault.observer);
        state_.give_example(std::move(text));
    }
}

}  // namespace pulsegate::load
