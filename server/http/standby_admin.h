#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/auth/admin_tokens.h"
#include "server/http/questions/admin_host.h"

namespace pulsegate {

class AddressLimits;
class Admin;
class Membership;

/// The present state of a standby for its clients.
struct StandbyState {
    bool is_edge = false;
    bool is_linked = false;  ///< linked to the node that owns the data, so clients can log in
    bool has_link = false;   ///< also while it is drained, and lets nobody in
    std::size_t connections = 0;
    const DrainState* drain = nullptr;  ///< null: it serves no clients
    /// With the bans that this edge has set itself; null: it serves no clients.
    AddressLimits* addresses = nullptr;
    Admin* api = nullptr;  ///< the API of its event loops; null: it serves no clients
};

/// The HTTP API of a standby node. It answers requests about this node itself: /healthz, /readyz
/// (ready if it serves clients as an edge), /metrics, /api/v1/cluster, /api/v1/drain and
/// /api/v1/reload. The API of an edge's own event loops helps with /healthz and /metrics. The node
/// that owns the data answers all other requests to /api/v1. The page at / is the dashboard, or
/// says that the node stands by. It owns its listeners and its own thread.
class StandbyAdmin {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// `cluster` must outlive it. If there are tokens, requests must carry one, except for the page
    /// and the probes. `state` is called on the API's thread. Of `host`, it uses `drain` and
    /// `reload`.
    StandbyAdmin(Membership& cluster, std::function<StandbyState()> state, AdminTokens tokens,
                 AdminHost host);
    ~StandbyAdmin();

    // Call these before `start`. They throw boost::system::system_error.

    void listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls);
    void listen_locally(const std::string& path);

    void start();

    // From any thread:

    void use(std::function<SSL*()> new_tls_session);
    void use(AdminTokens tokens);

    /// From its return on, it answers no requests and makes no calls.
    void stop();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
