#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/base/files/line_writer.h"
#include "server/http/admin.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"
#include "server/login/authenticator.h"
#include "server/session/users/gateway_totals.h"
#include "server/settings/config.h"

namespace pulsegate {

class DataStore;
class Shard;
class Tls;
class Webhook;

/// Owns everything that serves: shards and their threads, admin API, event log, limits and
/// authentication. Used from the main thread only.
class Server {
public:
    /// Reads all files and binds every listener. `store_failed` is called on another thread when
    /// nothing can be stored any more, and the server should stop. Throws ConfigError.
    explicit Server(const Config& config, std::function<void()> store_failed = {});
    ~Server();

    void start();

    /// Reopens the event file and reads certificates, users, keys and rules again. What can't be
    /// read stays in use as it was, with a line in the log.
    void reload();

    /// Refuses logins, publishes that all users are offline, disconnects all clients and joins the
    /// threads.
    void stop();
    /// Has it stopped, and will the next start find all that was acknowledged? Any thread.
    bool is_stored() const { return is_stored_; }

    /// Runs the task on each shard's thread, behind all the mail that lies there already, and waits
    /// for all of them.
    void on_every_shard(const std::function<void(Shard&)>& task);

    struct Listening {
        ListenUrl url;         ///< with its real port
        bool open_to_anybody;  ///< reachable from outside, and does not authenticate
    };
    /// In the order of the configuration.
    const std::vector<Listening>& listening() const { return listening_; }
    const Admission& admission() const { return admission_; }

private:
    /// Does this listener refuse every client that is not authenticated?
    bool authenticates_clients(const ListenUrl& url) const;
    void check_public(const ListenUrl& url) const;
    void listen(const ListenUrl& url);
    bool has_port_for_ipv4(const ListenUrl& url) const;
    [[noreturn]] void cannot_listen(const ListenUrl& url,
                                    const boost::system::error_code& error) const;
    void show_chat();
    std::shared_ptr<const Tls> read_certificates() const;
    void await_presence_sent();
    void restore();

    const Config config_;
    const std::shared_ptr<const std::vector<std::string>> origins_;  ///< websocket-origin
    Admission admission_;
    AddressLimits address_limits_;
    GatewayTotals totals_;
    std::unique_ptr<LineWriter> events_;
    Authenticator authenticator_;
    std::unique_ptr<Webhook> webhook_;  ///< null: there is none; outlives the store, which calls it
    std::unique_ptr<Admin> admin_;  // outlives the shards: their mailboxes may hold its requests
    std::vector<std::unique_ptr<Shard>> shards_;
    std::unique_ptr<DataStore> store_;  // its thread sends to the shards
    std::vector<Listening> listening_;
    std::vector<std::thread> threads_;
    std::atomic<bool> is_stored_{false};
};

}  // namespace pulsegate
