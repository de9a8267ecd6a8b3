#include "loadgen/swarm/reconnect_storm.h"

#include <algorithm>
#include <utility>

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

/// How long to open or close connections before reading again.
constexpr Duration turn_length = 1ms;

}  // namespace

ReconnectStorm::ReconnectStorm(SwarmState& state, Logins& logins, Pings& pings, Watchers& watchers,
                               std::uint16_t group)
    : state_(state), logins_(logins), pings_(pings), watchers_(watchers), group_(group) {
    for (SwarmClient& client : state.clients)
        if (client.group == group) clients_.push_back(&client);
}

void ReconnectStorm::go(Time at) {
    if (clients_.empty()) return;
    stage_ = Stage::planned;
    at_ = at + state_.scenario().groups[group_].storm_after;
}

Time ReconnectStorm::next() const {
    switch (stage_) {
        case Stage::planned: return at_;
        case Stage::vanishing: return Time::min();
        case Stage::returning:
            return next_ < clients_.size() ? Time::min() : at_ + state_.scenario().storm_within;
        default: return Time::max();
    }
}

void ReconnectStorm::turn(Time now) {
    if (stage_ == Stage::planned && now >= at_) strike(now);
    if (stage_ == Stage::vanishing) return vanish_some();
    if (stage_ != Stage::returning) return;
    if (next_ < clients_.size()) return_some();
    const bool in_time = now < at_ + state_.scenario().storm_within;
    if ((away_ == 0 && next_ == clients_.size()) || !in_time) end(now);
}

void ReconnectStorm::strike(Time now) {
    at_ = now;
    mark(now, "storm begins");
    std::erase_if(clients_, [](const SwarmClient* client) { return !client->online(); });
    away_ = static_cast<std::uint32_t>(clients_.size());
    state_.at(now).add(Count::vanished, away_);
    stage_ = Stage::vanishing;
}

/// Calls `act` for as many clients as fit into a turn. Returns whether the last client was among
/// them.
template <class Act>
bool ReconnectStorm::some(Act act) {
    Time now = Clock::now();
    const Time end = now + turn_length;
    for (; next_ < clients_.size() && now < end; now = Clock::now()) act(*clients_[next_++], now);
    return next_ == clients_.size();
}

void ReconnectStorm::vanish_some() {
    const bool all = some([this](SwarmClient& client, Time now) {
        client.in_storm = true;
        if (!client.online()) return;  // lost in the meantime
        pings_.give_up(client, now);
        client.attendance.goes(Attendance::Cause::planned);
        client.mqtt.reset();
        // The server may need some time to notice so many losses at once.
        watchers_.lost(client, {now, Clock::now()});
        state_.enter(client, SwarmClient::State::napping);
        state_.agenda.cancel(client);
    });
    if (!all) return;
    next_ = 0;
    stage_ = Stage::returning;
}

void ReconnectStorm::return_some() {
    (void)some([this](SwarmClient& client, Time now) {
        if (client.state == SwarmClient::State::napping) logins_.attempt(client, now);
    });
}

void ReconnectStorm::came_back(SwarmClient& client, Time now) {
    if (!client.in_storm) return;
    client.in_storm = false;
    --away_;
    Measurements& second = state_.at(now);
    second.add(Timing::back_again, now - at_);
    second.add(Timing::last_attempt, now - client.mqtt.connecting_since());
    if (away_ == 0 && stage_ == Stage::returning && next_ == clients_.size()) end(now);
}

void ReconnectStorm::end(Time now) {
    if (stage_ == Stage::over) return;
    stage_ = Stage::over;
    mark(now, "storm is over");
}

// If there are several storms, the name of the group tells which one this is.
void ReconnectStorm::mark(Time now, std::string text) {
    const auto& groups = state_.scenario().groups;
    if (std::ranges::count(groups, true, &Group::storm) > 1) text += ": " + groups[group_].name;
    state_.mark(now, std::move(text));
}

// -- all of them --

ReconnectStorms::ReconnectStorms(SwarmState& state, Logins& logins, Pings& pings,
                                 Watchers& watchers) {
    const auto& groups = state.scenario().groups;
    for (std::size_t at = 0; at < groups.size(); ++at)
        if (groups[at].storm)
            storms_.emplace_back(state, logins, pings, watchers, static_cast<std::uint16_t>(at));
}

void ReconnectStorms::go(Time at) {
    for (ReconnectStorm& storm : storms_) storm.go(at);
}

void ReconnectStorms::turn(Time now) {
    for (ReconnectStorm& storm : storms_) storm.turn(now);
}

Time ReconnectStorms::next() const {
    Time next = Time::max();
    for (const ReconnectStorm& storm : storms_) next = std::min(next, storm.next());
    return next;
}

void ReconnectStorms::came_back(SwarmClient& client, Time now) {
    const auto its = std::ranges::find(storms_, client.group, &ReconnectStorm::group);
    if (its != storms_.end()) its->came_back(client, now);
}

bool ReconnectStorms::settled() const {
    return std::ranges::all_of(storms_, &ReconnectStorm::settled);
}

}  // namespace pulsegate::load
