#pragma once

#include <cstdint>

#include "loadgen/swarm/swarm_state.h"

namespace pulsegate::load {

/// Values that are sampled each second instead of counted: the number of clients in each state, the
/// traffic, the lag of the loop, and the silence of the server.
class LoadGauges {
public:
    explicit LoadGauges(SwarmState& state) : state_(state) {}

    void start(Time at) { last_packet_ = at; }
    void turn(Time now, Duration late);
    void sample(Time now);

private:
    void note_silence(Time now);

    SwarmState& state_;
    Traffic counted_;
    std::uint64_t packets_seen_ = 0;
    Time last_packet_{};
    std::uint32_t second_ = 0;
    Duration longest_silence_{};
};

}  // namespace pulsegate::load
