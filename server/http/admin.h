#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "server/settings/config.h"
#include "server/shard/gateway_parts.h"

namespace pulsegate {

class Shard;
struct ChatGateway;
class Webhook;

/// The admin API over HTTP: health, metrics, the wheel, users, their changes, bans, delayed
/// messages, dead letters, backups. It owns its listeners and a thread of its own. It asks the
/// shards through their mailboxes and never touches their state; the answer is 503 if a shard does
/// not answer in time.
class Admin {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// `webhook` is null if there is none. Requests must carry the token as a bearer token, unless
    /// it is empty; /healthz needs none.
    Admin(std::vector<Shard*> shards, const GatewayParts& shared, const Webhook* webhook,
          const Config& config, std::string token);
    ~Admin();

    /// Call it before `start`. Returns the endpoint with its real port. `only_ipv6`: the port is
    /// another listener's for IPv4. Throws boost::system::system_error.
    Endpoint listen(const Endpoint& endpoint, bool only_ipv6);

    /// Serves the demo's page, which connects there. Call it before `start`.
    void show_chat(const ChatGateway& gateway);

    void start();
    void stop();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
