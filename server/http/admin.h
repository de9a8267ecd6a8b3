#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/auth/admin_tokens.h"
#include "server/base/files/unique_fd.h"
#include "server/http/questions/admin_host.h"
#include "server/http/serving/api_message.h"
#include "server/settings/config.h"
#include "server/shard/gateway_parts.h"

namespace pulsegate {

class Shard;
struct AnswerRecord;
struct HttpCaller;
struct ChatGateway;
class Webhook;

/// The HTTP API: health, metrics, the wheel, users, their changes, bans, delayed messages, dead
/// letters, backups. It owns its listeners and a thread of its own. It asks the shards through
/// their mailboxes and never touches their state; the answer is 503 if a shard does not answer in
/// time.
class Admin {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// `webhook` is null if there is none. If there are tokens, requests must carry one, except for
    /// /healthz.
    Admin(std::vector<Shard*> shards, const GatewayParts& shared, const Webhook* webhook,
          const Config& config, AdminTokens tokens, AdminHost host);
    ~Admin();

    /// Call it before `start`. Returns the endpoint with its real port. `only_ipv6`: another
    /// listener has the port for IPv4. Throws boost::system::system_error.
    Endpoint listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls);

    /// The same, on a socket that listens already.
    Endpoint listen(const Endpoint& endpoint, UniqueFd inherited, bool has_tls);
    /// The same, on a Unix socket, where requests need no token. Throws
    /// boost::system::system_error.
    void listen_locally(const std::string& path);
    void listen_locally(const std::string& path, UniqueFd inherited);
    /// Answers a client of another node; see HttpServer. Any thread.
    void adopt(UniqueFd socket, HttpCaller caller);
    /// See HttpServer.
    std::vector<int> listening() const;
    int listening_locally() const;

    /// Serves the demo's page, which connects to `gateway`. Call it before `start`.
    void show_chat(const ChatGateway& gateway);

    /// Makes the TLS sessions of new connections from now on. Any thread.
    void use(std::function<SSL*()> new_tls_session);

    /// Requires one of these tokens from now on. Any thread.
    void use(AdminTokens tokens);

    void start();
    void stop();

    /// Answers a GET request of this process, which needs no token. `done` is called on the API's
    /// thread, unless the API stops first. Any thread.
    void ask(std::string path, std::function<void(ApiReply)> done);

    /// Gives requests with an `Idempotency-Key` some time to end, and begins no new ones until
    /// `release`.
    void end_repeated();
    /// Stops its thread, before it returns, until `release`.
    void hold();
    void release();

    /// The answers to requests with an `Idempotency-Key`. Call it while the thread is held.
    std::vector<AnswerRecord> answers() const;
    /// Call it before `start`.
    void adopt(const std::vector<AnswerRecord>& answers);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
