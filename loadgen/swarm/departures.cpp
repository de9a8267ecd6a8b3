#include "loadgen/swarm/departures.h"

#include <algorithm>

namespace pulsegate::load {

Departures::Departures(SwarmState& state, Logins& logins, Pings& pings, Chat& chat,
                       Watchers& watchers)
    : state_(state),
      logins_(logins),
      pings_(pings),
      chat_(chat),
      watchers_(watchers),
      travellers_(state.scenario().groups.size()) {
    for (SwarmClient& client : state.clients)
        if (state.group(client).network_changes > 0 && !client.falls_silent)
            travellers_[client.group].clients.push_back(&client);
}

void Departures::go(Time at) {
    const auto& groups = state_.scenario().groups;
    for (std::size_t index = 0; index < groups.size(); ++index) {
        auto& [clients, times] = travellers_[index];
        if (clients.empty()) continue;
        const double part = 1.0 / state_.assignment.workers;
        times = PlannedRate(at, groups[index].network_changes * part, {}, state_.dice(0, 1));
    }
    for (SwarmClient& client : state_.clients)
        if (client.online()) plan(client, at);
}

// -- naps --

void Departures::plan(SwarmClient& client, Time now) {
    const auto& online = state_.group(client).online;
    const bool naps = online.most > Duration::zero() && !client.falls_silent &&
                      state_.phase() == SwarmState::Phase::measuring;
    client.leave_at = naps ? now + state_.dice(online) : Time::max();
}

void Departures::nap(SwarmClient& client, Time now) {
    client.leave_at = Time::max();
    if (state_.phase() != SwarmState::Phase::measuring) return;
    state_.at(now).add(Count::naps);
    pings_.give_up(client, now);
    client.attendance.goes(Attendance::Cause::planned);
    switch (state_.group(client).leave) {
        case Leave::disconnect:
            chat_.disconnects(client);
            client.mqtt.disconnect();
            watchers_.left(client, {now, Clock::now()});
            break;
        case Leave::reset:
            chat_.connection_broke(client);
            client.mqtt.reset();
            watchers_.left(client, {now, Clock::now()});
            break;
        case Leave::vanish:
            watchers_.fell_silent(client, {client.mqtt.before_send(), client.mqtt.after_send()});
            chat_.connection_broke(client);
            client.mqtt.abandon();
            break;
    }
    state_.enter(client, SwarmClient::State::napping);
    state_.agenda.plan(client, now + state_.dice(state_.group(client).away));
}

// -- changes of the network --

Time Departures::next() const {
    Time next = Time::max();
    if (state_.phase() != SwarmState::Phase::measuring) return next;
    for (const Travellers& travellers : travellers_) next = std::min(next, travellers.times.next());
    return next;
}

void Departures::turn(Time now) {
    if (state_.phase() != SwarmState::Phase::measuring) return;
    for (auto& [clients, times] : travellers_)
        while (times.due(now)) {
            (void)times.take();
            SwarmClient& client = *clients[state_.choose(clients.size())];
            if (client.online()) change_network(client, now);
        }
}

// The watchers are told nothing: the client is alive all the time, so a takeover must not show it
// as offline.
void Departures::change_network(SwarmClient& client, Time now) {
    state_.at(now).add(Count::network_changes);
    pings_.give_up(client, now);
    state_.note_sends(client);
    client.attendance.goes(Attendance::Cause::planned);
    chat_.connection_broke(client);
    client.mqtt.abandon();
    logins_.attempt(client, now);
}

}  // namespace pulsegate::load
