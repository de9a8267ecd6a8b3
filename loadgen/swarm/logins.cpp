#include "loadgen/swarm/logins.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/backoff.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

constexpr Duration login_timeout = 10s;

/// The maximum number of filters in a packet, so that the packets of a client that watches many
/// users are not too large for servers.
constexpr std::size_t filters_per_packet = 500;

bool says_busy(Reason reason) {
    switch (reason) {
        case Reason::server_busy:
        case Reason::server_unavailable:  // 3.1.1's return code 3, for server_busy too
        case Reason::quota_exceeded:
        case Reason::connection_rate_exceeded: return true;
        default: return false;
    }
}

}  // namespace

Logins::Logins(SwarmState& state, const Watchers& watchers) : state_(state), watchers_(watchers) {
    ramps_.resize(state.scenario().groups.size());
    for (SwarmClient& client : state.clients)
        if (state.group(client).hostile == Hostile::none)
            ramps_[client.group].clients.push_back(&client);
}

// -- the ramp --

void Logins::start(Time at) {
    for (std::size_t index = 0; index < ramps_.size(); ++index) {
        const Group& group = state_.scenario().groups[index];
        Ramp& ramp = ramps_[index];
        ramp.at_once = group.starts == Duration::zero();
        if (ramp.at_once) to_arrive_at_once_ += static_cast<std::uint32_t>(ramp.clients.size());
        const double part = static_cast<double>(ramp.clients.size()) / std::max(group.clients, 1u);
        const double phase =
            static_cast<double>(state_.assignment.worker) / state_.assignment.workers;
        ramp.times = PlannedRate(at + group.starts, group.ramp * part, {}, phase);
    }
}

void Logins::turn(Time now) {
    if (state_.phase() == SwarmState::Phase::draining) return;
    for (Ramp& ramp : ramps_)
        while (ramp.waits() && ramp.times.due(now) &&
               in_progress_ < state_.assignment.in_progress) {
            (void)ramp.times.take();
            SwarmClient& client = *ramp.clients[ramp.taken++];
            client.in_ramp = true;
            ++in_progress_;
            attempt(client, now);
        }
}

Time Logins::next() const {
    Time next = Time::max();
    if (in_progress_ >= state_.assignment.in_progress) return next;
    if (state_.phase() == SwarmState::Phase::draining) return next;
    for (const Ramp& ramp : ramps_)
        if (ramp.waits()) next = std::min(next, ramp.times.next());
    return next;
}

void Logins::leave_ramp(SwarmClient& client) {
    if (!client.in_ramp) return;
    client.in_ramp = false;
    --in_progress_;
    if (ramps_[client.group].at_once) --to_arrive_at_once_;
}

// -- an attempt --

void Logins::attempt(SwarmClient& client, Time now) {
    state_.enter(client, SwarmClient::State::joining);
    state_.at(now).add(Count::connects);
    state_.agenda.plan(client, now + login_timeout);
    client.mqtt.connect(now);
}

bool Logins::connected(SwarmClient& client, bool session_present, Time now) {
    Measurements& second = state_.at(now);
    second.add(Timing::tcp_connect,
               client.mqtt.tcp_connected_at() - client.mqtt.connecting_since());
    const bool had_session = state_.group(client).kept_session && client.entered;
    if (had_session && session_present) {
        second.add(Count::resumed);
        return came_in(client, now);  // its subscriptions are part of the session
    }
    // Client identifiers are new in each run, so the server can't have a session before the first
    // attempt. A later attempt may find the session of an earlier one, if the answer to that was
    // lost.
    if (session_present && client.mqtt.connections() == 1)
        state_.count_violation(client, "a session is present before the first login", now);
    if (had_session) miss_session(client, now);

    std::vector<std::string> topics{state_.client_topic(client.number())};
    for (const std::uint32_t room : state_.roster.rooms_of(client.number()))
        topics.push_back(state_.room_topic(room));
    std::ranges::move(watchers_.filters_of(client), std::back_inserter(topics));
    client.lacks_filters = false;
    client.granted.reset();
    client.presence_granted.reset();
    client.room_grants.assign(state_.roster.rooms_each(client.number()), std::nullopt);
    subscribe(client, topics);
    return false;
}

// MQTT 5.0, 3.2.2.3.2: the server may keep a session for a shorter time than the client asked for.
// It counts from the end of the connection, which was not before the client's last packet.
void Logins::miss_session(SwarmClient& client, Time now) {
    if (now - client.last_send > std::chrono::seconds(client.session_expiry)) {
        client.session_expired = true;
        return;
    }
    state_.at(now).add(Count::session_lost);
    state_.give_example(fmt::format("{} came back, and its session was lost", who(client)));
}

// The client's own topic comes first, then its rooms, then the users that it watches.
void Logins::subscribe(SwarmClient& client, std::span<const std::string> topics) {
    std::vector<SubscribeFilter> filters;
    while (!topics.empty()) {
        filters.clear();
        const auto part = topics.first(std::min(topics.size(), filters_per_packet));
        for (const std::string& topic : part)
            filters.push_back({topic, {.qos = QoS::exactly_once}});
        client.mqtt.subscribe(filters);
        topics = topics.subspan(part.size());
    }
}

bool Logins::subscribed(SwarmClient& client, std::size_t first, std::span<const Reason> reasons,
                        Time now) {
    const auto refused = std::ranges::find_if(reasons, is_error);
    const bool own_topic = first == 0;
    if (own_topic && refused != reasons.end() && refused == reasons.begin()) {
        const Reason reason = *refused;
        client.mqtt.close();
        client.attendance.goes(Attendance::Cause::planned);
        failed(client, reason, "subscription refused", now);
        return false;
    }
    if (refused != reasons.end()) {
        client.lacks_filters = true;
        state_.give_example(
            fmt::format("a subscription of {} was refused: {}", who(client), name(*refused)));
    }
    for (const Reason reason : reasons) take_grant(client, first++, reason, now);
    return client.mqtt.stage() == Stage::online && came_in(client, now);
}

// The filter is number `at` of its filters, counted from 0.
void Logins::take_grant(SwarmClient& client, std::size_t at, Reason reason, Time now) {
    const bool is_presence = at > client.room_grants.size();
    Measurements& second = state_.at(now);
    if (is_error(reason))
        second.add(is_presence ? Count::presence_filters_refused : Count::filters_refused);
    else if (is_presence)
        second.add(Count::presence_filters_granted);
    const QoS granted = is_error(reason) ? QoS::exactly_once : static_cast<QoS>(reason);
    if (at == 0) {
        client.granted = granted;
    } else if (!is_presence) {
        client.room_grants[at - 1] = granted;
    } else if (!is_error(reason)) {
        auto& all = client.presence_granted;
        all = all ? Range<QoS>{std::min(all->least, granted), std::max(all->most, granted)}
                  : Range<QoS>{granted, granted};
    }
}

bool Logins::came_in(SwarmClient& client, Time now) {
    Measurements& second = state_.at(now);
    second.add(Count::connected);
    second.add(Timing::login, now - client.mqtt.connecting_since());
    if (!client.entered) second.add(Count::entered);
    client.entered = true;
    leave_ramp(client);
    client.failed_attempts = 0;
    return true;
}

// -- failures --

void Logins::failed(SwarmClient& client, Reason reason, std::string_view cause, Time now) {
    const bool busy = says_busy(reason);
    state_.at(now).add(busy ? Count::refused_busy : Count::connect_failed);
    if (!busy) state_.give_example(fmt::format("{} could not connect: {}", who(client), cause));
    leave_ramp(client);
    come_back_later(client, now);
}

void Logins::prevented(SwarmClient& client, std::string_view cause, Time now) {
    state_.at(now).add(Count::starved);
    state_.give_example(fmt::format("the generator could not connect {}: {}", who(client), cause));
    leave_ramp(client);
    come_back_later(client, now);
}

void Logins::timed_out(SwarmClient& client, Time now) {
    const Stage stage = client.mqtt.stage();
    client.mqtt.reset();
    failed(client, Reason::success,
           stage == Stage::connecting    ? "no connection within 10 s"
           : stage == Stage::subscribing ? "no SUBACK within 10 s"
                                         : "no CONNACK within 10 s",
           now);
}

void Logins::come_back_later(SwarmClient& client, Time now) {
    if (state_.phase() == SwarmState::Phase::draining)
        return state_.enter(client, SwarmClient::State::gone);
    if (client.failed_attempts < UINT8_MAX) ++client.failed_attempts;
    state_.enter(client, SwarmClient::State::waiting);
    state_.agenda.plan(client, now + backoff(client.failed_attempts, state_.dice(0, 1)));
}

}  // namespace pulsegate::load
