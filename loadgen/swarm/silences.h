#pragma once

#include <cstdint>

#include "loadgen/swarm/pings.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// Clients that stop sending permanently without closing their connection. The server must close
/// them between their limit and one tick later.
class Silences {
public:
    Silences(SwarmState& state, Pings& pings, Watchers& watchers)
        : state_(state), pings_(pings), watchers_(watchers) {}

    void go(Time at);
    /// A client that will fall silent is online: plans the time.
    void plan(SwarmClient& client, Time now);
    void fall_silent(SwarmClient& client, Time now);
    void closed(SwarmClient& client, const Ending& ending, Time now);

    bool settled(Time now) const;
    /// At the end, counts connections that are still open.
    void judge(Time now);

private:
    SwarmState& state_;
    Pings& pings_;
    Watchers& watchers_;
    std::uint32_t yet_to_fall_silent_ = 0;  ///< number of clients, also of those not here yet
    Time last_judgement_{};
};

}  // namespace pulsegate::load
