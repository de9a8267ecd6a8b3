#include "loadgen/swarm/silences.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/units.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

/// How long to wait for a close that is overdue, to measure how late it is.
constexpr Duration grace = 5s;

}  // namespace

void Silences::go(Time at) {
    for (SwarmClient& client : state_.clients) {
        if (client.falls_silent && client.state != SwarmClient::State::gone) ++yet_to_fall_silent_;
        if (client.online()) plan(client, at);
    }
}

void Silences::plan(SwarmClient& client, Time now) {
    if (!client.falls_silent || state_.phase() != SwarmState::Phase::measuring) return;
    const Group& group = state_.group(client);
    client.silent_at =
        now + group.silent_after + from_seconds(state_.dice(0, seconds(group.silent_over)));
}

// The last packet is an extra ping, so that the limit counts from a random moment, not from one of
// the ramp or the ping schedule.
void Silences::fall_silent(SwarmClient& client, Time now) {
    client.silent_at = Time::max();
    --yet_to_fall_silent_;
    pings_.ping(client, now);
    if (!client.online()) return;
    client.mqtt.fall_silent();
    state_.enter(client, SwarmClient::State::silent);
    client.attendance.goes(Attendance::Cause::planned);
    watchers_.fell_silent(client, {client.mqtt.before_send(), client.mqtt.after_send()});
    state_.at(now).add(Count::silent);
    const Time deadline = state_.closes.deadline(client.mqtt.after_send(), state_.limit_of(client));
    if (deadline != Time::max()) last_judgement_ = std::max(last_judgement_, deadline);
}

void Silences::closed(SwarmClient& client, const Ending& ending, Time now) {
    state_.enter(client, SwarmClient::State::gone);
    const Duration limit = state_.limit_of(client);
    const SilenceAtClose silence = state_.silence_of(client, now);
    // After a violation, nobody knows when the server would have closed the connection.
    const bool by_client = ending.by == EndedBy::violation || ending.by == EndedBy::local;
    const Expiry expiry = by_client || client.oversleeping.explains_close(state_.loop.seen_until(),
                                                                          state_.closes.tick)
                              ? Expiry::unclear
                              : state_.closes.judge(silence, limit);
    Measurements& second = state_.at(now);
    if (expiry != Expiry::unclear) second.add(Timing::expiry, silence.since_before_send);
    switch (expiry) {
        case Expiry::in_time: return second.add(Count::closed_in_time);
        case Expiry::unclear: return second.add(Count::closed_unclear);
        case Expiry::early: second.add(Count::closed_early); break;
        case Expiry::late: second.add(Count::closed_late); break;
    }
    state_.give_example(fmt::format("{} was closed {} after its last packet; right is {} to {}",
                                    who(client), show(silence.since_before_send), show(limit),
                                    show(limit + state_.closes.tick)));
}

bool Silences::settled(Time now) const {
    if (yet_to_fall_silent_ > 0) return false;
    return state_.count(SwarmClient::State::silent) == 0 || now >= last_judgement_ + grace;
}

void Silences::judge(Time now) {
    for (const SwarmClient& client : state_.clients) {
        if (client.state != SwarmClient::State::silent) continue;
        if (now <= state_.closes.deadline(client.mqtt.after_send(), state_.limit_of(client)))
            continue;
        state_.at(now).add(Count::never_closed);
        state_.give_example(fmt::format("{} was still open {} after its last packet", who(client),
                                        show(now - client.mqtt.after_send())));
    }
}

}  // namespace pulsegate::load
