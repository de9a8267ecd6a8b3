#pragma once

#include <vector>

#include "loadgen/swarm/chat.h"
#include "loadgen/swarm/logins.h"
#include "loadgen/swarm/pings.h"
#include "loadgen/swarm/planned_rate.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// Clients that go away and come back: naps, and network changes, in which a new connection
/// replaces a half-open one.
class Departures {
public:
    Departures(SwarmState& state, Logins& logins, Pings& pings, Chat& chat, Watchers& watchers);

    void go(Time at);
    void turn(Time now);
    Time next() const;

    /// A client that naps is online: plans its next nap.
    void plan(SwarmClient& client, Time now);
    void nap(SwarmClient& client, Time now);

private:
    struct Travellers {
        std::vector<SwarmClient*> clients;
        PlannedRate times;
    };
    void change_network(SwarmClient& client, Time now);

    SwarmState& state_;
    Logins& logins_;
    Pings& pings_;
    Chat& chat_;
    Watchers& watchers_;
    std::vector<Travellers> travellers_;  ///< by group
};

}  // namespace pulsegate::load
