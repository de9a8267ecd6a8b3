#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/swarm/planned_rate.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// How clients log in: at first at planned times, with a limited number at once, and later when
/// they come back. A failed attempt is repeated after a pause, as phones do.
class Logins {
public:
    Logins(SwarmState& state, const Watchers& watchers);

    void start(Time at);
    void turn(Time now);
    Time next() const;

    /// Is every client that starts at once connected, or has it failed once?
    bool ramped() const { return to_arrive_at_once_ == 0; }

    void attempt(SwarmClient& client, Time now);

    // The server's answer to a login. Returns true if the client is online.
    [[nodiscard]] bool connected(SwarmClient& client, bool session_present, Time now);
    /// The reasons are those of its filters from `first` on.
    [[nodiscard]] bool subscribed(SwarmClient& client, std::size_t first,
                                  std::span<const Reason> reasons, Time now);

    /// The attempt failed; the client tries again.
    void failed(SwarmClient& client, Reason reason, std::string_view cause, Time now);
    /// The attempt failed because of this machine: no port, no descriptor.
    void prevented(SwarmClient& client, std::string_view cause, Time now);
    void timed_out(SwarmClient& client, Time now);

    /// A client that lost its connection comes back after a pause.
    void come_back_later(SwarmClient& client, Time now);

private:
    struct Ramp {
        std::vector<SwarmClient*> clients;
        std::size_t taken = 0;
        bool at_once = false;
        PlannedRate times;

        bool waits() const { return taken < clients.size(); }
    };

    void subscribe(SwarmClient& client, std::span<const std::string> topics);
    void take_grant(SwarmClient& client, std::size_t at, Reason reason, Time now);
    void miss_session(SwarmClient& client, Time now);
    bool came_in(SwarmClient& client, Time now);
    void leave_ramp(SwarmClient& client);

    SwarmState& state_;
    const Watchers& watchers_;
    std::vector<Ramp> ramps_;  ///< by group
    std::uint32_t in_progress_ = 0;
    std::uint32_t to_arrive_at_once_ = 0;
};

}  // namespace pulsegate::load
