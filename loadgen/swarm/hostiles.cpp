#include "loadgen/swarm/hostiles.h"

#include <fmt/format.h>

#include <array>
#include <string>

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t bytes_of_slow_reader = 1000;  // each second

/// How long a client does nothing between two of its acts.
Range<Duration> pause_of(Hostile kind) {
    switch (kind) {
        case Hostile::dribbler: return {150ms, 250ms};
        case Hostile::duel: return {300ms, 700ms};
        case Hostile::garbage: return {100ms, 1s};
        case Hostile::herd: return {100ms, 2s};
        default: return {1s, 1s};
    }
}

bool logs_in(Hostile kind) {
    return kind != Hostile::half_open && kind != Hostile::dribbler && kind != Hostile::garbage;
}

}  // namespace

void Hostiles::start(Time at) {
    for (SwarmClient& client : state_.clients)
        if (kind(client) != Hostile::none) state_.enter(client, SwarmClient::State::hostile);
    if (state_.scenario().hostile_after == Duration::zero()) let_in(at);
}

void Hostiles::go(Time at) {
    const Duration quiet = state_.scenario().hostile_after;
    if (quiet == Duration::zero()) return;
    let_in(at + quiet);
    state_.mark(at + quiet, "hostile clients come");
}

bool Hostiles::settled(Time now) const {
    const Duration quiet = state_.scenario().hostile_after;
    return quiet == Duration::zero() || now - 2 * quiet >= state_.measured_since();
}

void Hostiles::let_in(Time at) {
    for (SwarmClient& client : state_.clients) {
        const Group& group = state_.group(client);
        if (group.hostile == Hostile::none) continue;
        const double spread = group.ramp > 0 ? group.clients / group.ramp : 0;
        state_.agenda.plan(client, at + group.starts + from_seconds(state_.dice(0, spread)));
    }
}

void Hostiles::due(SwarmClient& client, Time now) {
    if (state_.phase() == SwarmState::Phase::over) return;
    if (client.mqtt.stage() == Stage::away)
        begin(client, now);
    else
        act(client, now);
    state_.agenda.plan(client, now + state_.dice(pause_of(kind(client))));
}

void Hostiles::begin(SwarmClient& client, Time now) {
    state_.at(now).add(Count::hostile_started);
    client.script_at = 0;
    if (logs_in(kind(client)))
        client.mqtt.connect(now);
    else
        client.mqtt.open(now);
}

// Half of the half-open clients send half of a CONNECT; the others send nothing.
void Hostiles::opened(SwarmClient& client, Time) {
    if (kind(client) != Hostile::half_open || state_.choose(2) == 0) return;
    const std::string connect = client.mqtt.connect_packet();
    client.mqtt.send_raw(std::string_view(connect).substr(0, connect.size() / 2));
}

void Hostiles::connected(SwarmClient& client, Time) {
    if (kind(client) == Hostile::slow_reader || kind(client) == Hostile::subscriber)
        subscribe_to_much(client);
}

void Hostiles::subscribe_to_much(SwarmClient& client) {
    const std::string run = fmt::format("loadgen/{:x}/#", state_.assignment.run);
    const std::array filters{
        SubscribeFilter{run, {.qos = QoS::at_most_once}},
        SubscribeFilter{"#", {.qos = QoS::at_most_once}},
        SubscribeFilter{"+/+/+", {.qos = QoS::at_most_once}},
        SubscribeFilter{"presence/+", {.qos = QoS::at_most_once}},
    };
    client.mqtt.subscribe(filters);
    if (kind(client) == Hostile::slow_reader) client.mqtt.read_at_most(bytes_of_slow_reader);
}

void Hostiles::act(SwarmClient& client, Time now) {
    const Stage stage = client.mqtt.stage();
    const bool logged_in = stage == Stage::online || stage == Stage::subscribing;
    switch (kind(client)) {
        case Hostile::slow_reader: client.mqtt.read_at_most(bytes_of_slow_reader); [[fallthrough]];
        case Hostile::subscriber:
            if (logged_in && now - client.mqtt.before_send() > client.mqtt.profile().keepalive / 2)
                client.mqtt.ping(now);
            return;
        case Hostile::dribbler: return dribble(client);
        case Hostile::garbage: return babble(client);
        case Hostile::duel:
            // The new connection takes over from the old one, which is left open.
            if (!logged_in) return;
            client.mqtt.abandon();
            return begin(client, now);
        case Hostile::herd:
            if (state_.choose(2) == 0)
                client.mqtt.reset();
            else
                client.mqtt.close();
            return;
        case Hostile::half_open:
        case Hostile::none: return;
    }
}

// Sends a CONNECT and then pings without end, byte by byte.
void Hostiles::dribble(SwarmClient& client) {
    if (client.mqtt.stage() != Stage::open) return;
    constexpr std::string_view ping("\xC0\x00", 2);
    const std::string connect = client.mqtt.connect_packet();
    std::size_t at = client.script_at;  // the bytes sent so far
    const char byte = at < connect.size() ? connect[at] : ping[(at - connect.size()) % 2];
    client.mqtt.send_raw({&byte, 1});
    if (at + 1 < connect.size() + 2)
        ++client.script_at;
    else
        client.script_at = static_cast<std::uint16_t>(connect.size());
}

// Sends noise, or packets in the wrong place: a second CONNECT, or an acknowledgement of nothing.
void Hostiles::babble(SwarmClient& client) {
    if (client.mqtt.stage() != Stage::open) return;
    std::string bytes;
    switch (state_.choose(3)) {
        case 0:
            for (std::size_t count = 1 + state_.choose(200); count > 0; --count)
                bytes.push_back(static_cast<char>(state_.choose(256)));
            break;
        case 1: bytes = client.mqtt.connect_packet() + client.mqtt.connect_packet(); break;
        case 2: bytes = std::string("\x62\x02\x12\x34", 4); break;
    }
    client.mqtt.send_raw(bytes);
}

void Hostiles::closed(SwarmClient& client, Time now) {
    state_.at(now).add(Count::hostile_closed);
    if (state_.phase() != SwarmState::Phase::over)
        state_.agenda.plan(client, now + state_.dice({1s, 2s}));
}

}  // namespace pulsegate::load
