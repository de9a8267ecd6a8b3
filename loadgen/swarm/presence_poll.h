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

/// Asks the server by HTTP, now and then, who of this worker's clients is online, and judges each
/// answer at once by what is true of the client. Clients that share a user are passed over, as are
/// answers that a change within the time of the question could explain.
class PresencePoll {
public:
    /// Throws `std::runtime_error` if the file of the token can't be read.
    PresencePoll(SwarmState& state, const Profiles& profiles);

    void turn(Time now);

private:
    struct Asked {
        SwarmClient* client;
        std::uint64_t version = 0;  ///< that was told last
    };

    void choose_clients();
    void ask();
    void take(const PresenceQuery::Answer& answer, Time now);
    void unanswered(const std::string& trouble, Time now);
    void judge(Asked& asked, const PresenceQuery::User& told, Time since, Time now);
    bool alive_since(const SwarmClient& client, Time since, Time now) const;
    bool dead_since(const SwarmClient& client, Time since) const;
    void fault(Count count, const SwarmClient& client, const char* what, Time now);

    SwarmState& state_;
    const Profiles& profiles_;
    std::unique_ptr<PresenceQuery> query_;  ///< null: nobody is asked
    std::vector<Asked> clients_;
    std::size_t next_client_ = 0;
    std::unordered_map<std::string, std::size_t> under_way_;  ///< by user: a place in `clients_`
    Time next_{};
    bool answered_ = false;        ///< ever
    unsigned first_troubles_ = 0;  ///< before that
};

}  // namespace pulsegate::load
