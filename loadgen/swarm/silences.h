#pragma once

#include <cstdint>

#include "loadgen/swarm/pings.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// Clients that stop sending for good without closing their connection: the server must close them
/// between their limit and a tick later.
class Silences {
public:
    Silences(SwarmState& state, Pings& pings, Watchers& watchers)
        : state_(state), pings_(pings), watchers_(watchers) {}

    void go(Time at);
    /// A client that is to fall silent is online: plans when.
    void plan(SwarmClient& client, Time now);
    void fall_silent(SwarmClient& client, Time now);
    void closed(SwarmClient& client, Time now);

    bool settled(Time now) const;
    /// At the end: who is still open.
    void judge(Time now);

private:
    SwarmState& state_;
    Pings& pings_;
    Watchers& watchers_;
    std::uint32_t yet_to_fall_silent_ = 0;  ///< of those who are online
    Time last_judgement_{};
};

}  // namespace pulsegate::load
