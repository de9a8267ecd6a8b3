#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/admission/admission.h"
#include "server/config.h"
#include "server/http/admin.h"
#include "server/line_writer.h"
#include "server/shard.h"

namespace pulsegate {

/// The gateway: shards, admin API and event log, from the first bind to the last goodbye.
class Server {
public:
    /// Binds every listener. Throws ConfigError.
    explicit Server(const Config& config);
    ~Server();

    void start();

    /// Begins a new event file where the old one was moved away, and reads the certificates anew.
    /// What can't be read stays as it was, and the log says so.
    void reload();

    /// Takes leave: no newcomers, everybody offline, goodbye, and the threads end.
    void stop();

    struct Listening {
        ListenUrl url;         ///< with its real port
        bool open_to_anybody;  ///< also from outside
    };
    /// In the order of the configuration.
    const std::vector<Listening>& listening() const { return listening_; }
    const Admission& admission() const { return admission_; }

private:
    /// Does this listener let in nobody who does not show who they are?
    bool asks_everybody(const ListenUrl& url) const;
    void check_public(const ListenUrl& url) const;
    void listen(const ListenUrl& url);
    std::shared_ptr<const Tls> read_certificates() const;
    /// Runs `action(Shard&)` on each shard's thread and returns the futures, all ready.
    template <class Action>
    auto on_every_shard(Action action);
    void let_watchers_hear();

    const Config config_;
    Admission admission_;
    Visitors visitors_;
    std::unique_ptr<LineWriter> events_;
    Gatekeeper gatekeeper_;
    std::unique_ptr<Admin> admin_;  // outlives the shards, whose mail may hold its questions
    std::vector<std::unique_ptr<Shard>> shards_;
    std::vector<Listening> listening_;
    std::vector<std::thread> threads_;
};

}  // namespace pulsegate
