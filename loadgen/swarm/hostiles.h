#pragma once

#include <cstdint>
#include <vector>

#include "loadgen/swarm/swarm_state.h"

namespace pulsegate::load {

/// Clients that misbehave, to see how this affects the others. The server may close them at any
/// time: this is counted, and they start again.
class Hostiles {
public:
    explicit Hostiles(SwarmState& state) : state_(state) {}

    /// They come from the start of the run, or after the scenario's quiet time.
    void start(Time at);
    void go(Time at);
    void due(SwarmClient& client, Time now);

    /// Were they there for as long as the quiet time before them?
    bool settled(Time now) const;

    void opened(SwarmClient& client, Time now);
    void connected(SwarmClient& client, Time now);
    void closed(SwarmClient& client, Time now);

private:
    Hostile kind(const SwarmClient& client) const { return state_.group(client).hostile; }
    void let_in(Time at);
    void begin(SwarmClient& client, Time now);
    void act(SwarmClient& client, Time now);
    void dribble(SwarmClient& client);
    void babble(SwarmClient& client);
    void subscribe_to_much(SwarmClient& client);

    SwarmState& state_;
};

}  // namespace pulsegate::load
