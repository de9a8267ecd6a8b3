#pragma once

#include <cstdint>
#include <vector>

#include "loadgen/swarm/planned_rate.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/truth/flow_total.h"

namespace pulsegate::load {

/// Messages at planned times, from a client to one of its contacts or to a room.
class Chat {
public:
    explicit Chat(SwarmState& state);

    void go(Time at);
    void turn(Time now);
    Time next() const;

    void acknowledged(SwarmClient& client, std::uint64_t tag, Reason reason, Time sent, Time now);
    /// Its acknowledgement has come behind that of a later message.
    void overtaken(SwarmClient& client, std::uint64_t tag, Time now);
    void in_doubt(SwarmClient& client, std::uint64_t tag);
    void connection_broke(SwarmClient& client);
    /// It sends DISCONNECT.
    void disconnects(SwarmClient& client);

    /// Clients that are away now stay away.
    void drain();

    /// At the end, counts messages that the server has not answered.
    void judge(Time now);

    /// Calls `visit(const Roster::Contact&, const FlowTotal&)` for each flow of this worker.
    template <class Visit>
    void for_each_total(Visit visit) const {
        for (const SwarmClient& client : state_.clients)
            for (std::size_t slot = 0; slot < client.flows.size(); ++slot) {
                const auto& flow = client.flows[slot];
                if (flow.sent.sent() == 0) continue;
                visit(flow.contact,
                      FlowTotal::of(client.number(), static_cast<std::uint16_t>(slot), flow.sent));
            }
    }

private:
    struct Writers {
        std::vector<SwarmClient*> clients;
        PlannedRate times;
        SwarmClient* next = nullptr;  ///< chosen in advance, so that it is in the caches by then
    };

    SwarmClient* choose(Writers& writers, Time now);
    SwarmClient* choose_next(const Writers& writers);
    void send(SwarmClient& sender, Time planned, Time now);

    SwarmState& state_;
    std::vector<Writers> writers_;  ///< by group
    Buffer payload_;
};

}  // namespace pulsegate::load
