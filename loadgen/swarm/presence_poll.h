#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "loadgen/observe/presence_query.h"
#include "loadgen/swarm/profiles.h"
#include "loadgen/swarm/swarm_state.h"

namespace pulsegate::load {

/// Regularly asks the server by HTTP which of this worker's clients are online, and compares each
/// answer with the client's true state at once. It ignores clients that share a user, and answers
/// that a change during the request could explain.
class PresencePoll {
public:
    /// Throws `std::runtime_error` if the file of the token can't be read.
    PresencePoll(SwarmState& state, const Profiles& profiles);

    void turn(Time now);

private:
    struct Asked {
        SwarmClient* client;
        std::uint64_t version = 0;  ///< the last version that was told
    };

    void choose_clients();
    void ask();
    void take(const PresenceQuery::Answer& answer, Time now);
    void unanswered(const std::string& trouble, Time now);
    void judge(Asked& asked, const UserPresence& told, Time since, Time now);
    bool alive_since(const SwarmClient& client, Time since, Time now) const;
    bool dead_since(const SwarmClient& client, Time since) const;
    void fault(Count count, const SwarmClient& client, const char* what, Time now);

    SwarmState& state_;
    const Profiles& profiles_;
    std::unique_ptr<PresenceQuery> query_;  ///< null: no API is asked
    std::vector<Asked> clients_;
    std::size_t next_client_ = 0;
    std::unordered_map<std::string, std::size_t> under_way_;  ///< by user: an index in `clients_`
    Time next_{};
    bool answered_ = false;        ///< was there ever an answer?
    unsigned first_troubles_ = 0;  ///< failed requests before the first answer
};

}  // namespace pulsegate::load
