#include "server/start/standby.h"

#include <spdlog/spdlog.h>

#include <boost/system/system_error.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "server/auth/admin_tokens.h"
#include "server/base/version.h"
#include "server/http/standby_admin.h"
#include "server/start/listen_address.h"

namespace pulsegate {

namespace {

/// A node that finds nobody in its way owns the data at once, and need not be seen before.
constexpr auto short_wait = std::chrono::milliseconds(500);

void listen(StandbyAdmin& admin, const Config& config) {
    for (const ListenUrl& url : config.listen) {
        if (url.for_clients()) continue;
        const auto endpoint = resolve(url);
        if (!config.has_admin_tokens() && !endpoint.address().is_loopback())
            throw ConfigError(admin_is_public(url));
        try {
            admin.listen(endpoint,
                         endpoint.address().is_v6() && has_port_for_ipv4(url, config.listen),
                         url.has_tls());
        } catch (const boost::system::system_error& error) {
            // As on a machine where the node that serves has the port: it is free when that ends.
            spdlog::warn("listen: {}: {}; while this node stands by, it does not answer there",
                         url.text(), error.code().message());
        }
    }
}

}  // namespace

Membership::Options membership_options(const Config& config) {
    const ClusterSettings& cluster = config.cluster;
    return {.redis = *cluster.redis,
            .node_name = cluster.node_name,
            .link = {.listen = cluster.link_listen,
                     .address = cluster.link_address,
                     .certificate = cluster.link_cert,
                     .key = cluster.link_key,
                     .authorities = cluster.link_ca},
            .version = program_version(),
            .lease = std::chrono::milliseconds(cluster.node_lease),
            .durability = cluster.durability,
            .replicas = cluster.replicas};
}

bool stand_by(Membership& cluster, const Config& config, const std::function<bool()>& give_up) {
    const auto serves_from = std::chrono::steady_clock::now() + short_wait;
    std::optional<StandbyAdmin> admin;
    return cluster.await_ownership([&] {
        if (!admin && std::chrono::steady_clock::now() >= serves_from) {
            admin.emplace(cluster,
                          read_admin_tokens(config.admin_token_file, config.admin_tokens_file));
            if (admin_has_tls(config)) admin->use(admin_tls_sessions(config));
            listen(*admin, config);
            admin->start();
            spdlog::info("standing by: another node serves; this one takes over when it ends");
        }
        return give_up();
    });
}

}  // namespace pulsegate
