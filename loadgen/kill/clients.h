#pragma once

#include <memory>
#include <vector>

#include "loadgen/kill/brief_client.h"
#include "loadgen/kill/publisher.h"
#include "loadgen/kill/receiver.h"
#include "loadgen/kill/run_context.h"
#include "loadgen/kill/watcher.h"
#include "loadgen/kill/will_client.h"

namespace pulsegate::kill {

/// Every other client speaks 5.0, unless the options say which version.
Version version_of(const Options& options, std::size_t client);

/// All clients of a run, except the readers of retained values.
class Clients {
public:
    explicit Clients(RunContext& context);

    void start();
    bool ready() const;
    /// Why the broker refuses them, if it does.
    const std::string& refusal() const { return receivers_.front()->refusal(); }
    /// The clients publish, and come and go.
    void live();
    /// Nobody publishes for a while.
    void pause(bool paused);
    /// From now on, no client publishes or breaks its connection, and all receivers stay connected.
    void finish();
    void reconnect_receivers();
    /// Is everything that was begun complete?
    bool idle() const;

    void tick(Time now);
    void broker_ended(BrokerEnd how, Time now);
    /// The edge at this place was killed. Its clients are in time if they come back within their
    /// limit of silence.
    void edge_killed(std::uint16_t place, Time now);
    void broker_serves(const BrokerStart& start, Time now);

private:
    std::vector<std::unique_ptr<Publisher>> publishers_;
    std::vector<std::unique_ptr<Receiver>> receivers_;  ///< guests and members of groups as well
    std::vector<std::unique_ptr<WillClient>> will_clients_;
    std::vector<std::unique_ptr<Watcher>> watchers_;
    std::vector<std::unique_ptr<BriefClient>> brief_clients_;
};

}  // namespace pulsegate::kill
