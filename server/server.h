#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/admission.h"
#include "server/config.h"
#include "server/event_log.h"
#include "server/http/admin.h"
#include "server/shard.h"

namespace pulsegate {

/// The gateway: shards, admin API and event log, from the first bind to the last goodbye.
class Server {
public:
    /// Binds every listener. Throws ConfigError.
    explicit Server(const Config& config);
    ~Server();

    void start();

    /// Takes leave: no newcomers, everybody offline, goodbye, and the threads end.
    void stop();

    /// The listeners with their real ports, in the order of the configuration.
    const std::vector<ListenUrl>& listening() const { return listening_; }
    const Admission& admission() const { return admission_; }

private:
    void listen(const ListenUrl& url);
    void on_every_shard(void (Shard::*action)());

    const Config config_;
    Admission admission_;
    std::unique_ptr<EventLog> events_;
    std::unique_ptr<Admin> admin_;  // outlives the shards, whose mail may hold its questions
    std::vector<std::unique_ptr<Shard>> shards_;
    std::vector<ListenUrl> listening_;
    std::vector<std::thread> threads_;
};

}  // namespace pulsegate
