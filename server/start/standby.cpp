#include "server/start/standby.h"

#include <spdlog/spdlog.h>

#include <boost/system/system_error.hpp>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "server/auth/admin_tokens.h"
#include "server/base/version.h"
#include "server/start/check.h"
#include "server/start/listen_address.h"
#include "server/start/service_manager.h"

namespace pulsegate {

namespace {

/// A node that finds nobody in its way owns the data at once, and need not be seen before.
constexpr auto short_wait = std::chrono::milliseconds(500);

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

bool Standby::await_ownership(const std::function<bool()>& give_up) {
    const auto serves_from = std::chrono::steady_clock::now() + short_wait;
    return cluster_.await_ownership([&] {
        if (!admin_ && std::chrono::steady_clock::now() >= serves_from) listen();
        if (service_) service_->look();
        return give_up();
    });
}

/// If the ports are taken, the node stands by all the same: they may be free when it has to serve.
void Standby::serve() {
    try {
        service_ = make_service_(config_);
    } catch (const ConfigError& error) {
        spdlog::warn("{}; while this node stands by, it serves no clients", error.what());
    }
}

void Standby::listen() {
    serve();
    const auto state = [this] { return service_ ? service_->state() : StandbyState{}; };
    admin_.emplace(cluster_, state,
                   read_admin_tokens(config_.admin_token_file, config_.admin_tokens_file), host_);
    if (admin_has_tls(config_)) admin_->use(admin_tls_sessions(config_));
    for (const ListenUrl& url : config_.listen) {
        if (url.for_clients()) continue;
        const auto endpoint = resolve(url);
        if (!config_.has_admin_tokens() && !endpoint.address().is_loopback())
            throw ConfigError(admin_is_public(url));
        try {
            admin_->listen(endpoint,
                           endpoint.address().is_v6() && has_port_for_ipv4(url, config_.listen),
                           url.has_tls());
        } catch (const boost::system::system_error& error) {
            // This happens on the machine of the serving node, which has the port: it is free when
            // that node ends.
            spdlog::warn("listen: {}: {}; while this node stands by, it does not answer there",
                         url.text(), error.code().message());
        }
    }
    listen_locally();
    service::tell_standing_by();
    admin_->start();
    if (service_)
        spdlog::info(
            "standing by: another node owns the data; this node takes over when that node ends");
    else
        spdlog::info("standing by: another node serves; this node takes over when that node ends");
}

/// For `pulsegate ctl`. A cluster has no data folder where the socket would be by default.
void Standby::listen_locally() {
    const std::string& path = config_.admin_socket;
    if (path.empty() || path == "none") return;
    try {
        admin_->listen_locally(path);
    } catch (const boost::system::system_error& error) {
        spdlog::warn("admin-socket: {}: {}; while this node stands by, it does not answer there",
                     path, error.code().message());
    }
}

std::vector<std::string> Standby::reload(const Config& config) {
    auto faults = check_start(config);
    if (!faults.empty()) return faults;
    try {
        auto tokens = read_admin_tokens(config.admin_token_file, config.admin_tokens_file);
        std::function<SSL*()> tls_sessions;
        if (admin_has_tls(config)) tls_sessions = admin_tls_sessions(config);
        if (service_) faults = service_->reload(config);
        if (!faults.empty()) return faults;
        if (admin_) admin_->use(std::move(tokens));
        if (admin_ && tls_sessions) admin_->use(std::move(tls_sessions));
    } catch (const std::exception& error) {
        return {error.what()};
    }
    config_ = config;
    return {};
}

}  // namespace pulsegate
