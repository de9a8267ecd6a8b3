#include "loadgen/swarm/pings.h"

namespace pulsegate::load {

namespace {

Duration keepalive_of(const SwarmClient& client) {
    return std::chrono::seconds(client.mqtt.keepalive());
}

}  // namespace

void Pings::begin(SwarmClient& client, Time now) {
    const Duration keepalive = keepalive_of(client);
    client.ping_at =
        keepalive == Duration::zero()
            ? Time::max()
            : now + from_seconds(seconds(keepalive) * state_.dice(0, Scenario::latest_ping));
}

void Pings::ping(SwarmClient& client, Time now) {
    state_.note_sends(client);
    if (client.mqtt.oldest_ping() == Time())
        for (auto& flow : client.flows) flow.sent.ping_sent();
    state_.at(now).add(Count::pings_sent);
    client.mqtt.ping(now);
    state_.note_sends(client);
    client.ping_at =
        now + from_seconds(seconds(keepalive_of(client)) *
                           state_.dice(Scenario::earliest_ping, Scenario::latest_ping));
}

void Pings::answered(SwarmClient& client, Time sent, Time now) {
    // Of the pings that wait, the one that `ping_sent` was told of is the last to be answered.
    if (client.mqtt.oldest_ping() == Time())
        for (auto& flow : client.flows) flow.sent.ping_answered();
    Measurements& second = state_.at(sent);
    second.add(Count::pings_answered);
    second.add(Timing::ping, now - sent);
    // The answer may have been there since the loop last looked.
    if (state_.loop.seen_until() - sent > state_.scenario().ping_within)
        second.add(Count::pings_late);
}

void Pings::give_up(const SwarmClient& client, Time now) {
    const Time oldest = client.mqtt.oldest_ping();
    if (oldest != Time() && state_.loop.seen_until() - oldest > state_.scenario().ping_within)
        state_.at(now).add(Count::pings_unanswered);
}

}  // namespace pulsegate::load
