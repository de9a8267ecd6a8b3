#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "server/auth/secret_file.h"
#include "server/cluster/link/link_settings.h"
#include "server/settings/config_options.h"

namespace pulsegate {

namespace {

RedisTarget parse_cluster(const std::string& name, const std::string& text) {
    try {
        return parse_redis_target(text);
    } catch (const std::invalid_argument& error) {
        throw ConfigError(name + ": " + error.what());
    }
}

RedisDurability parse_durability(const std::string& name, const std::string& text) {
    if (text == "always") return RedisDurability::always;
    if (text == "everysec") return RedisDurability::everysec;
    if (text == "none") return RedisDurability::none;
    throw ConfigError(
        fmt::format("{}: '{}' is unknown; choose always, everysec or none", name, text));
}

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string parse_node_name(const std::string& name, const std::string& text) {
    constexpr std::size_t longest = 64;
    constexpr const char* allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    if (text.size() > longest || text.find_first_not_of(allowed) != std::string::npos)
        throw ConfigError(fmt::format(
            "{}: '{}' is not the name of a node; write up to {} letters, digits, '.', '-' and '_'",
            name, text, longest));
    return text;
}

std::string read_password(const std::string& path) {
    try {
        return read_token("cluster-password-file", path);
    } catch (const std::runtime_error& error) {
        throw ConfigError(error.what());
    }
}

/// A setting without effect is a mistake.
void check_unused(const Config& config) {
    const ClusterSettings usual;
    const ClusterSettings& cluster = config.cluster;
    const std::pair<const char*, bool> stated[] = {
        {"cluster-password-file", !cluster.password_file.empty()},
        {"cluster-ca", !cluster.redis_ca.empty()},
        {"node-name", !cluster.node_name.empty()},
        {"link-listen", cluster.link_listen != usual.link_listen},
        {"link-address", !cluster.link_address.empty()},
        {"link-cert", !cluster.link_cert.empty()},
        {"link-key", !cluster.link_key.empty()},
        {"link-ca", !cluster.link_ca.empty()},
        {"cluster-durability", cluster.durability != usual.durability},
        {"cluster-replicas", cluster.replicas != usual.replicas},
        {"cluster-edge", cluster.edge},
        {"node-lease", cluster.node_lease != usual.node_lease}};
    for (const auto& [name, is_stated] : stated)
        if (is_stated)
            throw ConfigError(std::string(name) +
                              ": this node is not in a cluster; name its Redis with --cluster");
}

void check_link(const ClusterSettings& cluster) {
    const int files =
        !cluster.link_cert.empty() + !cluster.link_key.empty() + !cluster.link_ca.empty();
    if (files != 0 && files != 3)
        throw ConfigError(
            "link-cert: the link needs all of link-cert, link-key and link-ca, or none of them");
    boost::asio::ip::tcp::endpoint listens;
    try {
        listens = link_endpoint({.listen = cluster.link_listen, .certificate = cluster.link_cert});
    } catch (const std::runtime_error& error) {
        throw ConfigError(error.what());
    }
    if (cluster.link_address.empty() && listens.address().is_unspecified())
        throw ConfigError(
            fmt::format("link-address: other nodes can't connect to {}; write the HOST:PORT where "
                        "they reach this node",
                        cluster.link_listen));
    if (!cluster.link_address.empty() && split_link_address(cluster.link_address).first.empty())
        throw ConfigError(
            fmt::format("link-address: '{}' is not HOST:PORT; write, for example, 10.0.0.1:7883",
                        cluster.link_address));
}

/// An edge forwards each packet in one frame. The packets of all clients share the link, and one
/// that is much larger would delay the others.
void check_edge(const Config& config) {
    constexpr std::size_t most = std::size_t{16} << 20;
    if (config.cluster.edge && config.max_packet_size > most)
        throw ConfigError(
            fmt::format("cluster-edge: an edge forwards packets of at most {} bytes; lower "
                        "max-packet-size ({})",
                        most, config.max_packet_size));
}

/// Settings for a folder mean nothing in a cluster.
void check_data(const Config& config) {
    if (!config.data.empty())
        throw ConfigError("data: with --cluster, Redis stores the data; leave one of them out");
    if (config.fsync != Fsync::always)
        throw ConfigError(
            "fsync: Redis stores the data and has its own settings; use --cluster-durability");
}

}  // namespace

void add_cluster(Settings& settings, Config& config) {
    ClusterSettings& cluster = config.cluster;
    settings.any("cluster", "URL", "",
                 "Redis that stores the data of all nodes, instead of a data folder: "
                 "redis://HOST:PORT, rediss:// for TLS, or redis+sentinel://HOST:PORT/NAME. "
                 "Several addresses are separated by commas",
                 [&](auto& name, auto& text) { cluster.redis = parse_cluster(name, text); });
    settings.any("cluster-password-file", "FILE", "", "File with the password of Redis",
                 [&](auto&, auto& text) { cluster.password_file = text; });
    settings.any("cluster-ca", "FILE", "",
                 "PEM file with CAs that are trusted for Redis; default: the system's CAs",
                 [&](auto&, auto& text) { cluster.redis_ca = text; });
    settings.any(
        "cluster-durability", "always|everysec|none", "always",
        "Durability that Redis must offer at least. always: acknowledged data is on disk. "
        "everysec: a power cut can lose the last second. none: no promise",
        [&](auto& name, auto& text) { cluster.durability = parse_durability(name, text); });
    settings.count("cluster-replicas", cluster.replicas, 0, 10, "0",
                   "Number of replicas of Redis that must have data before it is acknowledged");
    settings.any("node-name", "NAME", "the host name", "Name of this node, unique in the cluster",
                 [&](auto& name, auto& text) { cluster.node_name = parse_node_name(name, text); });
    settings.duration("node-lease", cluster.node_lease, 4 * second, 60 * second, "8s",
                      "How long a node may be silent before another node takes over; must be the "
                      "same on all nodes");
    settings.flag("cluster-edge", cluster.edge,
                  "While another node owns the data, serve clients here, too: this node keeps "
                  "their connections and forwards their packets to the other node");
    settings.any("link-listen", "HOST:PORT", "127.0.0.1:7883",
                 "Where this node listens for other nodes. They check whether it is alive, and "
                 "forward packets and API requests",
                 [&](auto&, auto& text) { cluster.link_listen = text; });
    settings.any("link-address", "HOST:PORT", "link-listen",
                 "Where other nodes reach this node, if that is another address",
                 [&](auto&, auto& text) { cluster.link_address = text; });
    settings.any("link-cert", "FILE", "",
                 "PEM file with the certificate that this node presents to other nodes; required "
                 "unless link-listen is a loopback address",
                 [&](auto&, auto& text) { cluster.link_cert = text; });
    settings.any("link-key", "FILE", "", "PEM file with the private key of link-cert",
                 [&](auto&, auto& text) { cluster.link_key = text; });
    settings.any("link-ca", "FILE", "", "PEM file with the CAs that sign the certificates of nodes",
                 [&](auto&, auto& text) { cluster.link_ca = text; });
}

void complete_cluster(Config& config) {
    ClusterSettings& cluster = config.cluster;
    if (!cluster.redis) {
        check_unused(config);
        if (config.data.empty()) config.data = "data";
        if (config.data == "none") config.data.clear();
        return;
    }
    check_data(config);
    check_edge(config);
    check_link(cluster);
    if (!cluster.redis_ca.empty() && !cluster.redis->tls)
        throw ConfigError(
            "cluster-ca: there is no certificate to check; use --cluster with a rediss:// URL");
    cluster.redis->ca_file = cluster.redis_ca;
    if (!cluster.password_file.empty())
        cluster.redis->password = read_password(cluster.password_file);
    if (cluster.node_name.empty()) cluster.node_name = parse_node_name("node-name", host_name());
    if (cluster.node_name.empty())
        throw ConfigError("node-name: this machine has no name; write one");
}

}  // namespace pulsegate
