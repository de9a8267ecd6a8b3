#pragma once

#include "loadgen/swarm/swarm_state.h"

namespace pulsegate::load {

/// The keepalive of clients that are not silent, whatever else they send.
class Pings {
public:
    explicit Pings(SwarmState& state) : state_(state) {}

    /// The first ping is at a random time, as if the client had been connected before the run, so
    /// that pings are spread evenly from the start, however steep the ramp.
    void begin(SwarmClient& client, Time now);

    void ping(SwarmClient& client, Time now);
    void answered(SwarmClient& client, Time sent, Time now);

    /// The client reads no more, or the run has ended: counts a ping that has waited too long for
    /// its answer.
    void give_up(const SwarmClient& client, Time now) {
        give_up(client, client.mqtt.oldest_ping(), now);
    }
    /// The same for a connection that was closed with this oldest ping.
    void give_up(const SwarmClient& client, Time oldest, Time now);

private:
    void look_behind(SwarmClient& client, Time now);
    bool waited_too_long(Time sent) const;
    void missing(const SwarmClient& client, Time sent, Time now);

    SwarmState& state_;
};

}  // namespace pulsegate::load
