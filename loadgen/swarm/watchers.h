#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loadgen/swarm/profiles.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/truth/presence.h"

namespace pulsegate::load {

/// Watches the presence of others, tells other workers' watchers the truth about this worker's
/// clients, and compares both at the end. Presence is judged by user, named after the first of the
/// clients that share it.
class Watchers {
public:
    Watchers(SwarmState& state, const Profiles& profiles);

    /// Filters that a client has to subscribe to.
    std::vector<std::string> filters_of(const SwarmClient& client) const;

    /// False: the topic is not one of presence.
    bool received(const SwarmClient& client, const Publish& message, Time now);

    /// An observation, perhaps by other means: then `observer` is not a client's number.
    void observed(const Presence::Observation& seen, Time now);

    // What happens to clients; those that nobody watches are passed over.
    void online(SwarmClient& client, Time at);
    /// It said so, by DISCONNECT or by a reset: the server knows at once.
    void left(SwarmClient& client, Time at);
    void lost(SwarmClient& client, Time at);  ///< its connection broke
    void fell_silent(SwarmClient& client, Time at);

    /// The truth, for the workers whose clients watch it.
    template <class Visit>
    void for_each_fact(Visit visit) const {
        for (const Liveness& fact : facts_)
            for (const std::uint32_t worker : watching_.at(profiles_.user_of(fact.client)))
                visit(worker, fact);
    }
    void learn(const Liveness& fact) { presence_.happened(profiles_.user_of(fact.client), fact); }

    void judge(Time now);

    /// Of a name that the server shows; nothing if it is nobody of this run that this worker
    /// watches.
    std::optional<std::uint32_t> user_of(std::string_view name) const;

private:
    void find_doubtful_users();
    void watch(std::uint32_t worker, std::uint32_t user);
    std::vector<std::uint32_t> users_watched_by(std::uint32_t watcher) const;
    std::unordered_map<std::uint32_t, Time> watched_since() const;
    void judge_last(Time until, Duration slack, Presence::Verdict& verdict) const;
    void tell(SwarmClient& client, Liveness::Kind kind, Time at, Duration limit);

    SwarmState& state_;
    const Profiles& profiles_;
    Presence presence_;
    std::unordered_map<std::string, std::uint32_t> watched_;  ///< by this worker, by name
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> watching_;  ///< workers by user
    /// Users with hostile clients, or with clients of several servers: what they should be shown as
    /// is unknown.
    std::unordered_set<std::uint32_t> doubtful_;
    std::vector<Liveness> facts_;
};

}  // namespace pulsegate::load
