#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loadgen/swarm/profiles.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/truth/presence.h"
#include "loadgen/truth/presence_text.h"

namespace pulsegate::load {

/// Watches the presence of others, tells other workers' watchers the true state of this worker's
/// clients, and compares both at the end. Presence is judged by user; the first client of a user
/// identifies the user.
class Watchers {
public:
    Watchers(SwarmState& state, const Profiles& profiles);

    /// Filters that a client must subscribe to.
    std::vector<std::string> filters_of(const SwarmClient& client) const;

    /// The client is connected, and its subscriptions are granted.
    void came(const SwarmClient& client, Time now);

    /// Judges what clients that came were told first.
    void turn(Time now);

    /// Returns false if the topic is not a presence topic.
    bool received(const SwarmClient& client, const Publish& message, Time now);

    /// An observation. If it is not by a client, `observer` is not a client's number.
    void observed(const Presence::Observation& seen, Time now);

    /// The times between which an event happened. They differ, because the generator may stall at
    /// any step.
    struct Moment {
        Time before{};
        Time after{};
    };

    // Events of clients. Clients that nobody watches are ignored.
    void online(SwarmClient& client, Moment at);
    /// The client left with DISCONNECT or a reset, so the server knows it at once.
    void left(SwarmClient& client, Moment at);
    void lost(SwarmClient& client, Moment at);  ///< its connection broke
    void fell_silent(SwarmClient& client, Moment at);
    /// Its present attempt to log in has failed, or is judged before its end.
    void tried(const SwarmClient& client);

    /// The true states, for the workers with clients that watch them.
    template <class Visit>
    void for_each_fact(Visit visit) const {
        for (const Liveness& fact : facts_)
            for (const std::uint32_t worker : watching_.at(profiles_.user_of(fact.client)))
                visit(worker, fact);
    }
    void learn(const Liveness& fact) { presence_.happened(profiles_.user_of(fact.client), fact); }

    void judge(Time now);

    /// The user with a name that the server shows; nothing if this worker does not watch such a
    /// user.
    std::optional<std::uint32_t> user_of(std::string_view name) const;

private:
    /// A client that came, until it must have been told the present states.
    struct Newcomer {
        Time due;          ///< of the run's common clock, as all its times
        Time told_before;  ///< what others were told before that, it must be told
        Time connected;
        std::uint32_t client;
        std::uint32_t stay;

        bool operator>(const Newcomer& other) const { return due > other.due; }
    };

    void find_doubtful_users();
    void watch(std::uint32_t worker, std::uint32_t user);
    std::vector<std::uint32_t> users_watched_by(std::uint32_t watcher) const;
    bool watches(const SwarmClient& client, std::uint32_t user) const;
    std::unordered_map<std::uint32_t, Time> watched_since() const;
    void damaged(const SwarmClient& client, const Publish& message, std::string_view what,
                 Time now);
    void check(const SwarmClient& client, std::uint32_t user, const Publish& message,
               const PresenceText& text, Time now);
    bool lacks_retain(const SwarmClient& client, std::uint32_t user, const Publish& message,
                      const PresenceText& text) const;
    const std::string* stranger_in(const PresenceText& text, std::uint32_t user) const;
    void judge_first(const Newcomer& newcomer, Time now);
    void judge_last(Time until, Presence::Verdict& verdict) const;
    void tell(SwarmClient& client, Liveness::Kind kind, Moment at, Duration limit);
    Duration slack() const;
    Duration login_slack() const;
    Time read_until(Time now) const;
    Duration delay_at(Time now) const;
    bool may_have_waited(const SwarmClient& client, Time now) const;

    SwarmState& state_;
    const Profiles& profiles_;
    Presence presence_;
    std::unordered_map<std::string, std::uint32_t> watched_;  ///< by this worker, by name
    boost::unordered_flat_set<std::uint64_t> pairs_;  ///< this worker's clients and their users
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> watching_;  ///< workers by user
    /// Users with hostile clients, or with clients of several servers: their right state is
    /// unknown.
    std::unordered_set<std::uint32_t> doubtful_;
    std::vector<Liveness> facts_;
    std::priority_queue<Newcomer, std::vector<Newcomer>, std::greater<>> newcomers_;
    std::uint32_t broken_ = 0;      ///< the last known value of `SwarmState::broken`
    Time broken_at_ = Time::min();  ///< when it changed
};

}  // namespace pulsegate::load
