#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/swarm/logins.h"
#include "loadgen/swarm/pings.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// The clients of a group that all vanish together and all reconnect together, as after a network
/// outage. Their connections are reset, so that no port stays in TIME_WAIT.
///
/// It works in short turns. In between, the loop reads the packets to other clients, because
/// opening thousands of connections must not delay the measured reads.
class ReconnectStorm {
public:
    /// The storm of the group with this number.
    ReconnectStorm(SwarmState& state, Logins& logins, Pings& pings, Watchers& watchers,
                   std::uint16_t group);

    void go(Time at);
    void turn(Time now);
    Time next() const;

    std::uint16_t group() const { return group_; }
    void came_back(SwarmClient& client, Time now);
    bool settled() const { return stage_ == Stage::none || stage_ == Stage::over; }

private:
    enum class Stage : std::uint8_t { none, planned, vanishing, returning, over };

    void strike(Time now);
    void vanish_some();
    void return_some();
    void end(Time now);
    void mark(Time now, std::string text);
    template <class Act>
    bool some(Act act);

    SwarmState& state_;
    Logins& logins_;
    Pings& pings_;
    Watchers& watchers_;
    const std::uint16_t group_;
    Stage stage_ = Stage::none;
    Time at_ = Time::max();
    std::vector<SwarmClient*> clients_;
    std::size_t next_ = 0;
    std::uint32_t away_ = 0;
};

/// The storms of all groups, each at its own time.
class ReconnectStorms {
public:
    ReconnectStorms(SwarmState& state, Logins& logins, Pings& pings, Watchers& watchers);

    void go(Time at);
    void turn(Time now);
    Time next() const;

    void came_back(SwarmClient& client, Time now);
    bool settled() const;

private:
    std::vector<ReconnectStorm> storms_;
};

}  // namespace pulsegate::load
