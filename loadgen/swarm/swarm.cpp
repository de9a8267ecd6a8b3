#include "loadgen/swarm/swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "loadgen/swarm/chat.h"
#include "loadgen/swarm/deliveries.h"
#include "loadgen/swarm/departures.h"
#include "loadgen/swarm/events_file.h"
#include "loadgen/swarm/hostiles.h"
#include "loadgen/swarm/load_gauges.h"
#include "loadgen/swarm/logins.h"
#include "loadgen/swarm/pings.h"
#include "loadgen/swarm/presence_poll.h"
#include "loadgen/swarm/profiles.h"
#include "loadgen/swarm/reconnect_storm.h"
#include "loadgen/swarm/silences.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"
#include "loadgen/units.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

/// The maximum time between turns of the loop, so that a stall of the generator is noticed.
constexpr Duration heartbeat = 10ms;

/// If a worker sends and reads many packets a second, it works in rounds. This halves its CPU, and
/// raises the latency by at most two rounds, one for sending and one for reading.
Duration round_length(double packets) {
    if (packets > 10'000) return 1ms;
    return packets > 3000 ? 500us : Duration::zero();
}

bool by_server(const Ending& ending) {
    return ending.by == EndedBy::disconnect || ending.by == EndedBy::close ||
           ending.by == EndedBy::failure;
}

}  // namespace

/// Tells the activities what happens to clients, and each client what to do next.
class Swarm::Parts final : public ClientOwner {
public:
    using State = SwarmClient::State;
    using Phase = SwarmState::Phase;

    Parts(Loop& loop, const Assignment& assignment)
        : its_assignment(assignment),
          profiles(its_assignment),
          state(loop, *this, its_assignment, profiles) {}
    ~Parts() = default;

    Time turn(Time now, Duration late);
    void start(Time at);
    void go(Time at);
    void drain(Time now);
    void judge(Time now);
    bool drained() const;
    void close_all();

    const Assignment its_assignment;
    Profiles profiles;
    SwarmState state;  ///< the activities below find the clients there
    Watchers watchers{state, profiles};
    Logins logins{state, watchers};
    Pings pings{state};
    Chat chat{state};
    Deliveries deliveries{state, profiles};
    Departures departures{state, logins, pings, chat, watchers};
    Silences silences{state, pings, watchers};
    ReconnectStorms storms{state, logins, pings, watchers};
    Hostiles hostiles{state};
    EventsFile events{state, watchers};
    PresencePoll poll{state, profiles};
    LoadGauges gauges{state};

private:
    void count_kept_out(Time now);
    Time next_turn(Time now) const;

    // ClientOwner
    void opened(MqttClient& mqtt, Time now) override;
    void connected(MqttClient& mqtt, bool session_present, Time now) override;
    void subscribed(MqttClient& mqtt, std::size_t first, std::span<const Reason> reasons,
                    Time now) override;
    void received(MqttClient& mqtt, const Publish& message, Time now) override;
    void received_again(MqttClient& mqtt, const Publish& message, bool is_same, Time now) override;
    void acknowledged(MqttClient& mqtt, std::uint64_t tag, Reason reason, Time sent,
                      Time now) override;
    void overtaken(MqttClient& mqtt, std::uint64_t tag, Time now) override;
    void in_doubt(MqttClient& mqtt, std::uint64_t tag) override;
    void ping_answered(MqttClient& mqtt, Time sent, Time now) override;
    void closed(MqttClient& mqtt, const Ending& ending, Time now) override;

    void came_online(SwarmClient& client, Time now);
    void tell_failure(SwarmClient& client, Time now);
    void attend(SwarmClient& client, Time now);
    void attend_online(SwarmClient& client, Time now);
    void plan_next(SwarmClient& client);
    bool token_expired(const SwarmClient& client, const Ending& ending, Time now) const;
    bool breaks(const SwarmClient& client, const Ending& ending, Time now) const;
    Attendance::Cause blame(const SwarmClient& client, const Ending& ending, Time now);
    void lost_talker(SwarmClient& client, const Ending& ending, Time now);
};

// -- phases --

void Swarm::Parts::start(Time at) {
    state.start(at);
    gauges.start(at);
    logins.start(at);
    hostiles.start(at);
    state.loop.wake_at(at);
}

void Swarm::Parts::go(Time at) {
    state.measure(at);
    state.loop.pace(round_length(state.scenario().packets() / state.assignment.workers));
    for (SwarmClient& client : state.clients) client.attendance.begin();
    chat.go(at);
    departures.go(at);
    silences.go(at);
    storms.go(at);
    hostiles.go(at);
    for (SwarmClient& client : state.clients)
        if (client.online()) plan_next(client);
    state.loop.wake_at(at);
}

// Clients that are away stay away. Otherwise nobody could tell whether the messages that wait for
// them would still come.
void Swarm::Parts::drain(Time now) {
    if (state.phase() == Phase::idle || state.phase() >= Phase::draining) return;
    state.drain();
    for (SwarmClient& client : state.clients)
        if (client.state == State::napping || client.state == State::waiting)
            state.agenda.cancel(client);
    count_kept_out(now);
    chat.drain();
}

/// Counts the clients that the server keeps out, except those of a storm, which the storm reports.
void Swarm::Parts::count_kept_out(Time now) {
    for (const SwarmClient& client : state.clients) {
        const bool tries = client.state == State::waiting || client.state == State::joining;
        if (!tries || !client.entered || client.in_storm || client.failed_attempts < 2) continue;
        state.at(now).add(Count::kept_out);
        state.give_example(fmt::format("client {} was not let in again: {} attempts failed",
                                       client.number(), client.failed_attempts));
    }
}

bool Swarm::Parts::drained() const {
    return std::ranges::all_of(state.clients, [](const SwarmClient& client) {
        return !client.online() || client.mqtt.in_flight() + client.mqtt.waiting() == 0;
    });
}

void Swarm::Parts::judge(Time now) {
    chat.judge(now);
    deliveries.judge(now);
    silences.judge(now);
    watchers.judge(now);
    if (const auto many = state.host.half_open.given_up(); many > 0)
        state.note(
            fmt::format("{} half-open connections were closed before the server had noticed: they "
                        "were too many",
                        show_count(many)));
    for (const SwarmClient& client : state.clients)
        if (client.online() || client.state == State::silent) pings.give_up(client, now);
}

void Swarm::Parts::close_all() {
    state.end();
    for (SwarmClient& client : state.clients) {
        state.agenda.cancel(client);
        if (client.online())
            client.mqtt.disconnect();
        else if (client.mqtt.stage() != Stage::away)
            client.mqtt.reset();
        state.enter(client, State::gone);
    }
}

// -- time --

Time Swarm::Parts::turn(Time now, Duration late) {
    if (state.phase() == Phase::idle || state.phase() == Phase::over || now < state.started())
        return std::max(now, state.started()) + heartbeat;
    gauges.turn(now, late);
    state.agenda.advance(
        now, [&](AgendaEntry& entry) { attend(static_cast<SwarmClient&>(entry), now); });
    logins.turn(now);
    events.turn(now);
    watchers.turn(now);
    poll.turn(now);
    if (now >= state.measured_since()) {
        storms.turn(now);
        departures.turn(now);
        chat.turn(now);
    }
    return next_turn(now);
}

Time Swarm::Parts::next_turn(Time now) const {
    Time next = std::min({now + heartbeat, state.agenda.next(), logins.next()});
    if (state.measured_since() != Time::max())
        next = std::min({next, storms.next(), departures.next(), chat.next()});
    return std::max(next, now);
}

void Swarm::Parts::attend(SwarmClient& client, Time now) {
    switch (client.state) {
        case State::joining:
            tell_failure(client, now);
            client.attendance.goes(Attendance::Cause::planned);
            return logins.timed_out(client, now);
        case State::waiting:
        case State::napping:
            if (state.phase() != Phase::draining) logins.attempt(client, now);
            return;
        case State::online: return attend_online(client, now);
        case State::hostile: return hostiles.due(client, now);
        default: return;
    }
}

void Swarm::Parts::attend_online(SwarmClient& client, Time now) {
    if (client.silent_at <= now) {
        silences.fall_silent(client, now);
    } else if (client.leave_at <= now) {
        departures.nap(client, now);
    } else if (client.ping_at <= now) {
        pings.ping(client, now);
    }
    if (client.online()) plan_next(client);
}

void Swarm::Parts::plan_next(SwarmClient& client) {
    state.agenda.plan(client, std::min({client.ping_at, client.leave_at, client.silent_at}));
}

// -- what happens to clients --

void Swarm::Parts::opened(MqttClient& mqtt, Time now) {
    SwarmClient& client = state.client(mqtt);
    if (client.state == State::hostile) hostiles.opened(client, now);
}

void Swarm::Parts::connected(MqttClient& mqtt, bool session_present, Time now) {
    SwarmClient& client = state.client(mqtt);
    if (client.state == State::hostile) return hostiles.connected(client, now);
    client.read_proof.connected(state.broken());
    if (logins.connected(client, session_present, now)) came_online(client, now);
}

void Swarm::Parts::subscribed(MqttClient& mqtt, std::size_t first, std::span<const Reason> reasons,
                              Time now) {
    SwarmClient& client = state.client(mqtt);
    if (client.state != State::joining) return;
    if (logins.subscribed(client, first, reasons, now)) return came_online(client, now);
    if (client.state != State::joining) tell_failure(client, now);  // its own topic was refused
}

/// Tells the watchers that a login failed. The attempt may have reached the server, even if it
/// ended without an answer.
void Swarm::Parts::tell_failure(SwarmClient& client, Time now) {
    watchers.fell_silent(client, {client.last_send, now});  // if its network had changed
    watchers.tried(client);
}

void Swarm::Parts::came_online(SwarmClient& client, Time now) {
    state.enter(client, State::online);
    client.online_since = now;
    client.keepalive = client.mqtt.keepalive();
    client.session_expiry = client.mqtt.session_expiry();
    client.last_send = client.mqtt.before_send();
    client.oversleeping = {};
    client.pings_behind = 0;
    client.attendance.comes();
    client.attendance.settles(state.common(now));
    watchers.online(client, {client.mqtt.tcp_connected_at(), now});
    watchers.came(client, now);
    pings.begin(client, now);
    if (state.phase() == Phase::measuring) {
        departures.plan(client, now);
        silences.plan(client, now);
    }
    storms.came_back(client, now);
    plan_next(client);
}

void Swarm::Parts::received(MqttClient& mqtt, const Publish& message, Time now) {
    SwarmClient& client = state.client(mqtt);
    if (client.state == State::hostile) return;
    // Messages that waited in a kept session may come before the login is complete.
    if (client.state == State::joining) client.attendance.comes();
    if (watchers.received(client, message, now)) return;
    deliveries.received(client, message, now);
}

void Swarm::Parts::received_again(MqttClient& mqtt, const Publish& message, bool is_same,
                                  Time now) {
    SwarmClient& client = state.client(mqtt);
    if (client.state == State::hostile) return;
    if (is_same && watchers.received(client, message, now)) return;
    deliveries.received_again(client, message, is_same, now);
}

void Swarm::Parts::acknowledged(MqttClient& mqtt, std::uint64_t tag, Reason reason, Time sent,
                                Time now) {
    chat.acknowledged(state.client(mqtt), tag, reason, sent, now);
}

void Swarm::Parts::overtaken(MqttClient& mqtt, std::uint64_t tag, Time now) {
    SwarmClient& client = state.client(mqtt);
    if (client.state != State::hostile) chat.overtaken(client, tag, now);
}

void Swarm::Parts::in_doubt(MqttClient& mqtt, std::uint64_t tag) {
    chat.in_doubt(state.client(mqtt), tag);
}

void Swarm::Parts::ping_answered(MqttClient& mqtt, Time sent, Time now) {
    SwarmClient& client = state.client(mqtt);
    if (client.state != State::hostile) pings.answered(client, sent, now);
}

void Swarm::Parts::closed(MqttClient& mqtt, const Ending& ending, Time now) {
    SwarmClient& client = state.client(mqtt);
    const bool is_violation = ending.by == EndedBy::violation;
    if (is_violation && client.state != State::hostile)
        state.count_violation(client, ending.cause, now);
    if (breaks(client, ending, now)) state.broke();
    switch (client.state) {
        case State::hostile: return hostiles.closed(client, now);
        case State::joining:
            client.attendance.goes(Attendance::Cause::planned);
            tell_failure(client, now);
            if (ending.by == EndedBy::local) return logins.prevented(client, ending.cause, now);
            return logins.failed(client, ending.reason, ending.cause, now);
        case State::silent:
            pings.give_up(client, ending.unanswered_ping, now);
            if (!token_expired(client, ending, now)) return silences.closed(client, ending, now);
            state.at(now).add(Count::token_expired);
            return state.enter(client, State::gone);
        case State::online: return lost_talker(client, ending, now);
        default: return;  // a half-open connection, closed before its client came back
    }
}

bool Swarm::Parts::token_expired(const SwarmClient& client, const Ending& ending, Time now) const {
    return by_server(ending) && profiles.token_expired(client.number(), now);
}

bool Swarm::Parts::breaks(const SwarmClient& client, const Ending& ending, Time now) const {
    const bool talks = client.state == State::online || client.state == State::joining;
    return talks && by_server(ending) && !token_expired(client, ending, now);
}

Attendance::Cause Swarm::Parts::blame(const SwarmClient& client, const Ending& ending, Time now) {
    if (ending.by == EndedBy::violation) return Attendance::Cause::closed;
    if (token_expired(client, ending, now)) {
        state.at(now).add(Count::token_expired);
        return Attendance::Cause::planned;
    }
    if (ending.by == EndedBy::local || state.starved(client, now)) {
        state.at(now).add(Count::starved);
        return Attendance::Cause::starved;
    }
    state.at(now).add(Count::false_offline);
    state.give_example(fmt::format(
        "{} was false offline {} after its last packet: {}{}", who(client),
        show(state.silence_of(client, now).since_before_send), ending.cause,
        ending.reason == Reason::success ? "" : fmt::format(" ({})", name(ending.reason))));
    return Attendance::Cause::closed;
}

void Swarm::Parts::lost_talker(SwarmClient& client, const Ending& ending, Time now) {
    client.attendance.goes(blame(client, ending, now));
    watchers.lost(client, {client.mqtt.before_send(), now});
    chat.connection_broke(client);
    logins.come_back_later(client, now);
}

// -- the interface --

Swarm::Swarm(Loop& loop, const Assignment& assignment)
    : parts_(std::make_unique<Parts>(loop, assignment)) {}
Swarm::~Swarm() = default;

Time Swarm::turn(Time now, Duration late) { return parts_->turn(now, late); }
void Swarm::start(Time at) { parts_->start(at); }
void Swarm::go(Time at) { parts_->go(at); }
void Swarm::drain(Time now) { parts_->drain(now); }
bool Swarm::ramped() const { return parts_->logins.ramped(); }
bool Swarm::drained() const { return parts_->drained(); }
void Swarm::judge(Time now) { parts_->judge(now); }
void Swarm::close_all() { parts_->close_all(); }

bool Swarm::settled() const {
    const Time now = Clock::now();
    return parts_->silences.settled(now) && parts_->storms.settled() &&
           parts_->hostiles.settled(now);
}

std::vector<TruthFrame> Swarm::flows() {
    for (const SwarmClient& client : parts_->state.clients)
        if (client.state == SwarmClient::State::joining) parts_->watchers.tried(client);
    return truth_frames(parts_->state, parts_->chat, parts_->watchers);
}

bool Swarm::add_flows(std::span<const std::uint8_t> body) {
    return read_truth_frame(body, parts_->state, parts_->deliveries, parts_->watchers);
}

std::map<std::uint32_t, Measurements> Swarm::take_samples(Time now) {
    parts_->gauges.sample(now);
    return parts_->state.take_samples();
}

std::vector<Swarm::Mark> Swarm::take_marks() {
    std::vector<Mark> marks;
    for (auto& [second, text] : parts_->state.take_marks())
        marks.push_back({second, std::move(text)});
    return marks;
}

const std::vector<std::string>& Swarm::examples() const { return parts_->state.examples(); }
std::vector<std::string> Swarm::notes() const { return parts_->state.notes(); }

}  // namespace pulsegate::load
