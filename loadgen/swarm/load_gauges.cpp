#include "loadgen/swarm/load_gauges.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr std::size_t most_stall_notes = 3;

}  // namespace

void LoadGauges::turn(Time now, Duration late) {
    Measurements& second = state_.at(now);
    second.add(Timing::loop_lag, std::max(late, Duration::zero()));
    if (late > stall_limit) {
        second.add(Count::stalls);
        state_.stalled(late, now);
        if (state_.notes().size() < most_stall_notes)
            state_.note(fmt::format("the generator stalled for {}, {} after the start", show(late),
                                    show(now - state_.started())));
    }
    note_silence(now);
}

void LoadGauges::note_silence(Time now) {
    const bool somebody = state_.count(SwarmClient::State::online) > 0;
    const auto packets = state_.host.traffic.packets_received;
    const Duration silence = somebody ? now - last_packet_ : Duration::zero();
    if (const auto second = state_.second_of(now); second != second_) {
        second_ = second;
        longest_silence_ = {};
    }
    longest_silence_ = std::max(longest_silence_, silence);
    if (packets != packets_seen_ || !somebody) last_packet_ = now;
    packets_seen_ = packets;
    if (somebody) state_.at(now).set(Gauge::server_silence, seconds(longest_silence_));
}

void LoadGauges::sample(Time now) {
    using State = SwarmClient::State;
    const Traffic& total = state_.host.traffic;
    Measurements& second = state_.at(now);
    second.add(Count::packets_sent, total.packets_sent - counted_.packets_sent);
    second.add(Count::packets_received, total.packets_received - counted_.packets_received);
    second.add(Count::bytes_sent, total.bytes_sent - counted_.bytes_sent);
    second.add(Count::bytes_received, total.bytes_received - counted_.bytes_received);
    counted_ = total;

    const auto silent = state_.count(State::silent);
    second.set(Gauge::clients_open, state_.count(State::online) + silent);
    second.set(Gauge::clients_silent, silent);
    second.set(Gauge::clients_away, state_.count(State::napping));
    second.set(Gauge::clients_waiting, state_.count(State::waiting));
}

}  // namespace pulsegate::load
