#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

#include "server/auth/admin_tokens.h"

namespace pulsegate {

class Membership;

/// The HTTP API of a node that stands by: /healthz, /readyz (not ready), /metrics and
/// /api/v1/cluster. All else is answered with 503. It owns its listeners and a thread of its own.
class StandbyAdmin {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// `cluster` must outlive it. Requests must carry one of the tokens, if there are
    /// any; the probes need none.
    StandbyAdmin(const Membership& cluster, AdminTokens tokens);
    ~StandbyAdmin();

    /// Call it before `start`. Throws boost::system::system_error.
    void listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls);
    void use(std::function<SSL*()> new_tls_session);
    void start();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
