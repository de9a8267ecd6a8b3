#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/auth/admin_tokens.h"
#include "server/base/files/line_writer.h"
#include "server/base/files/unique_fd.h"
#include "server/handover/gateway_pieces.h"
#include "server/handover/inheritance.h"
#include "server/http/admin.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"
#include "server/limits/drain.h"
#include "server/login/authenticator.h"
#include "server/session/users/gateway_totals.h"
#include "server/settings/config.h"
#include "server/start/certificate_watch.h"
#include "server/start/service_manager.h"

namespace pulsegate {

class DataStore;
class LinkExchange;
class Membership;
class Shard;
class Tls;
class Webhook;

/// The server's links to the process around it.
struct ServerHost {
    /// Called on another thread when nothing can be stored any more and the server should stop.
    std::function<void()> store_failed{};
    AdminHost api{};
    Membership* cluster = nullptr;  ///< owns the cluster's data; null: this node is alone
    /// The sessions of the clients are on another node, to which `links` must lead.
    bool is_edge = false;
    /// Called on each shard's thread; see `Rounds::guard_by`.
    std::function<void()> guard{};
    Inheritance inheritance{};
};

/// Owns everything that serves: shards and their threads, HTTP API, event log, limits and
/// authentication. Used from the main thread only.
class Server {
public:
    /// Reads all files and binds every listener. Throws ConfigError.
    explicit Server(const Config& config, ServerHost host = {});
    ~Server();

    /// Takes over a client of another process, with its state. Call it before `start`, on a thread
    /// that ends before `start`. Returns false if the client was closed; the log says why.
    bool adopt(UniqueFd socket, std::string_view state);
    /// Takes over another process' histories of users, in the same way. False: they can't be read.
    [[nodiscard]] bool adopt_history(std::string_view state);
    /// All clients have been adopted.
    void finish_adoption();
    /// No process has served the clients since then. Call it before `begin`.
    void count_pause_from(std::chrono::steady_clock::time_point since);
    /// True if `begin` stores changes that the previous process would not see.
    bool divides_rooms() const;
    /// Stores what the constructor has changed. `start` does so if this was not called. Throws
    /// std::runtime_error.
    void begin();
    void start();

    /// Begins a new event file if the old one has been moved away.
    void reopen_files();
    /// Applies the live settings, reopens the event file, and reads certificates, tokens, users,
    /// keys and rules again. If files can't be used, it logs and returns the faults, and changes
    /// nothing. The settings that need a restart must be the same as before.
    std::vector<std::string> reload(const Config& config);

    /// From now on it tells load balancers that it is not ready.
    void announce_drain(const DrainTerms& terms);
    /// Any thread may call it.
    const DrainState& drain() const { return drain_; }
    /// Refuses logins, and asks all clients to leave within that time, except clients of edges and
    /// their logins: no other node could let them in before this one ends. Users still appear
    /// online, and are online at the next start.
    void begin_drain(Millis over);
    /// Refuses logins, publishes that all users are offline (unless it was drained, or another node
    /// takes over), disconnects all clients and joins the threads. Edges keep their clients for a
    /// node that takes over.
    void stop();
    /// The time that `stop` may take. If it takes longer, the process should exit.
    Millis longest_stop() const;
    /// True if it has stopped and the next start will find everything that was acknowledged. Any
    /// thread.
    bool is_stored() const { return is_stored_; }

    /// Warns of certificates that expire soon. Call it now and then. Any thread.
    void look_at_certificates() { certificates_.warn_daily(); }

    /// The node with the sessions goes on, but this edge can't reach it: lets its clients go.
    void release_forwarded();

    /// The links to other nodes that carry the packets of clients.
    LinkExchange& links() const { return *links_; }
    std::weak_ptr<LinkExchange> weak_links() const { return links_; }
    unsigned shards() const { return static_cast<unsigned>(shards_.size()); }

    /// True if all event loops turn their wheels. Any thread, also before `start`.
    bool is_alive() const;

    /// Runs the task on each shard's thread, after all mail that has already arrived there, and
    /// waits for all shards. Throws what the task throws.
    void on_every_shard(const std::function<void(Shard&)>& task);

    struct Listening {
        ListenUrl url;         ///< with its real port
        bool open_to_anybody;  ///< reachable from outside, without authentication
    };
    /// In the order of the configuration.
    const std::vector<Listening>& listening() const { return listening_; }
    const Admission& admission() const { return admission_; }
    AddressLimits& address_limits() { return address_limits_; }
    Admin& api() { return *admin_; }

    /// The pieces that an upgrade works with, see handover/. Between `start` and `stop`.
    GatewayPieces pieces();
    /// The promises that clients of a gateway with these settings may rely on.
    static Promises promises(const Config& config);

private:
    using Endpoint = boost::asio::ip::tcp::endpoint;
    void listen(const ListenUrl& url);
    Endpoint listen_for_admins(const ListenUrl& url, const Endpoint& endpoint);
    Endpoint listen_for_clients(const ListenUrl& url, const Endpoint& endpoint);
    bool leaves_out_ipv4(const ListenUrl& url, const Endpoint& endpoint) const;
    void check_inherited() const;
    [[noreturn]] void cannot_listen(const ListenUrl& url,
                                    const boost::system::error_code& error) const;
    std::string local_path() const;
    /// Stands for the Unix socket among listeners.
    std::string local_url() const { return "unix:" + local_path(); }
    void listen_locally();
    /// The sockets with the URLs that asked for them. The server still owns them.
    std::vector<std::pair<std::string, int>> listening_sockets() const;
    void show_chat();
    std::shared_ptr<const Tls> read_certificates(const Config& config,
                                                 const Inheritance& inheritance = {}) const;
    void watch_certificates(const Tls* tls);
    // Each of these reads files and returns the function that applies them. They throw if a file
    // can't be used.
    std::function<void()> prepare_tokens(const Config& config);
    std::function<void()> prepare_certificates(const Config& config);
    std::function<void()> prepare_users(const Config& config);
    void use(const Config& config);
    void await_presence_sent();
    void end_links();
    void restore(const Inheritance& inheritance);
    void adopt(const GatewayRecord& record);
    std::size_t adopt_bans(const GatewayRecord& record, Millis now);
    /// Call it when all shards are frozen.
    GatewayRecord describe();

    const Config config_;  ///< at the start
    std::atomic<Millis> stop_wait_;
    std::vector<std::unique_ptr<Config>> of_shards_;  ///< one for each shard's thread
    const std::shared_ptr<const std::vector<std::string>> origins_;  ///< websocket-origin
    std::optional<InheritedSockets> inherited_;                      ///< only until it listens
    Admission admission_;
    AddressLimits address_limits_;
    GatewayTotals totals_;
    DrainState drain_;
    CertificateWatch certificates_;
    std::shared_ptr<const Tls> tls_;  ///< for new connections; null: no listener has TLS
    std::unique_ptr<LineWriter> events_;
    Authenticator authenticator_;
    std::unique_ptr<Webhook> webhook_;  ///< null: there is none; outlives the store, which calls it
    std::unique_ptr<Admin> admin_;  // outlives the shards: their mailboxes may hold its requests
    Membership* const cluster_;     ///< null: this node is alone, or an edge
    std::shared_ptr<LinkExchange> links_;  // outlives the shards
    std::vector<std::unique_ptr<Shard>> shards_;
    std::unique_ptr<DataStore> store_;  // its thread sends to the shards
    std::vector<Listening> listening_;
    std::vector<std::thread> threads_;
    std::atomic<bool> is_serving_{false};
    std::atomic<bool> is_stored_{false};
};

}  // namespace pulsegate
