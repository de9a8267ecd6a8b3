#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/base/log_format.h"
#include "server/events/webhook.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"
#include "server/limits/client_limits.h"
#include "server/limits/drain.h"
#include "server/login/authenticator.h"
#include "server/redis/redis_target.h"
#include "server/redis/redis_terms.h"
#include "server/session/terms/settings.h"
#include "server/store/ledger/fsync.h"
#include "server/transport/tls/tls.h"

namespace pulsegate {

/// The URL of a listener: `wss://host:port/path?proxy-protocol`.
struct ListenUrl {
    enum class Scheme : std::uint8_t { mqtt, mqtts, ws, wss, http, https };
    Scheme scheme;
    std::string host;
    std::uint16_t port;
    std::string path{};           ///< for WebSocket: "/mqtt"
    bool proxy_protocol = false;  ///< each connection begins with a PROXY header

    bool for_clients() const { return scheme != Scheme::http && scheme != Scheme::https; }
    bool has_tls() const {
        return scheme == Scheme::mqtts || scheme == Scheme::wss || scheme == Scheme::https;
    }
    bool is_websocket() const { return scheme == Scheme::ws || scheme == Scheme::wss; }

    std::string text() const;
};

/// The nodes that share one Redis for their data, and this node's part.
struct ClusterSettings {
    std::optional<RedisTarget> redis{};  ///< nothing: this node is alone
    std::string password_file{};
    std::string redis_ca{};  ///< PEM file
    std::string node_name{};
    std::string link_listen = "127.0.0.1:7883";
    std::string link_address{};  ///< the address that other nodes are told; "": where it listens
    std::string link_cert{};
    std::string link_key{};
    std::string link_ca{};
    RedisDurability durability = RedisDurability::always;
    unsigned replicas = 0;  ///< replicas that must have every acknowledged write
    Millis node_lease = 8'000;
    bool edge = false;  ///< serve clients while another node owns the data
};

/// All settings. The flag and the file's line `idle-timeout` set `idle_timeout`.
struct Config : BrokerSettings {
    Config() { history_bytes = 16 * 1024 * 1024; }

    std::vector<ListenUrl> listen;
    unsigned shards = 0;
    Millis login_timeout = 10'000;
    Millis websocket_ping = 0;
    std::vector<std::string> websocket_origin;
    Millis stop_wait = 3'000;
    DrainTerms drain{};
    AdmissionSettings admission;
    AddressLimitSettings address_limits;
    ClientLimitSettings client_limits;
    Millis login_wait = 5'000;
    Millis max_loop_lag = 100;
    double max_message_rate = 10'000;
    std::size_t max_byte_rate = 10 * 1024 * 1024;
    std::size_t total_output_budget = 256 * 1024 * 1024;
    AuthenticatorSettings authenticator;
    Tls::Settings tls;
    std::string admin_token_file;
    std::string admin_tokens_file;
    std::string admin_socket;  ///< the path of a Unix socket, or "none"; "": in the data folder
    bool demo = false;
    bool rooms_are_stated =
        false;  ///< `rooms` was set; otherwise it depends on whether logins are checked
    std::string events;
    std::string data;  ///< the folder; "": none
    ClusterSettings cluster;
    Fsync fsync = Fsync::always;
    std::size_t max_data_bytes = 0;  ///< 0: four fifths of the room on the disk
    WebhookSettings webhook;
    std::optional<bool> presence_feed;  ///< default: on if the changes are on disk
    std::size_t event_log_bytes = 0;    ///< 0: depends on the store's room
    spdlog::level::level_enum log_level = spdlog::level::info;
    LogFormat log_format = LogFormat::text;
    bool log_logins = false;

    bool has_admin_tokens() const {
        return !admin_token_file.empty() || !admin_tokens_file.empty();
    }
    bool keeps_presence() const { return presence_feed.value_or(stores()); }
    /// True if data outlives the process.
    bool stores() const { return !data.empty() || cluster.redis; }
};

/// A setting that can't be used. The message names the setting and the remedy.
class ConfigError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Thrown if the command line asks for a text on standard output (`--help`, `--version`) instead of
/// serving.
struct UsageRequested {
    std::string text;
};

/// Reads flags, the settings file named by `--config`, and variables. `environment` ends with a
/// null pointer, or is null. Throws ConfigError for the first fault, or UsageRequested for `--help`
/// and the like.
Config parse_config(int argc, const char* const* argv, const char* const* environment = nullptr);

}  // namespace pulsegate
