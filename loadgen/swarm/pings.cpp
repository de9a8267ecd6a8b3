#include "loadgen/swarm/pings.h"

#include <fmt/format.h>

#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// If this many pings in a row are sent while an earlier one is open, an answer was lost.
constexpr std::uint8_t most_behind = 3;

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
    look_behind(client, now);
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
    // If no ping is open any more, the ping that `ping_sent` was told of has been answered. If a
    // ping was given up, it is unknown which ping this answer is for.
    if (client.mqtt.oldest_ping() == Time() && !client.mqtt.gave_up_pings())
        for (auto& flow : client.flows) flow.sent.ping_answered();
    Measurements& second = state_.at(sent);
    second.add(Count::pings_answered);
    second.add(Timing::ping, now - sent);
    // The answer may have waited unread since the loop last looked.
    if (!waited_too_long(sent)) return;
    second.add(Count::pings_late);
    state_.give_example(
        fmt::format("{} was answered a ping after {}", who(client), show(now - sent)));
}

void Pings::give_up(const SwarmClient& client, Time oldest, Time now) {
    if (oldest != Time() && waited_too_long(oldest)) missing(client, oldest, now);
}

// A lost answer is not missed by itself, because the next answer is taken for it, and so on. But
// from then on, some ping is still open whenever the next one is due.
void Pings::look_behind(SwarmClient& client, Time now) {
    const Time oldest = client.mqtt.oldest_ping();
    client.pings_behind = oldest == Time() ? 0 : static_cast<std::uint8_t>(client.pings_behind + 1);
    if (client.pings_behind == 0) return;
    if (client.pings_behind < most_behind && !waited_too_long(oldest)) return;
    missing(client, oldest, now);
    client.mqtt.give_up_ping();
    client.pings_behind = 0;
}

void Pings::missing(const SwarmClient& client, Time sent, Time now) {
    state_.at(now).add(Count::pings_unanswered);
    state_.give_example(fmt::format("{} pinged {} after the start and got no answer", who(client),
                                    show(sent - state_.started())));
}

bool Pings::waited_too_long(Time sent) const {
    return state_.loop.seen_until() - sent > state_.scenario().ping_within;
}

}  // namespace pulsegate::load
