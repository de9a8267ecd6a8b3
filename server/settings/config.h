#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/events/webhook.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"
#include "server/limits/client_limits.h"
#include "server/login/authenticator.h"
#include "server/session/terms/settings.h"
#include "server/store/ledger/fsync.h"
#include "server/transport/tls/tls.h"

namespace pulsegate {

/// The URL of a listener: `wss://host:port/path?proxy-protocol`.
struct ListenUrl {
    enum class Scheme : std::uint8_t { mqtt, mqtts, ws, wss, http };
    Scheme scheme;
    std::string host;
    std::uint16_t port;
    std::string path{};           ///< of WebSocket: "/mqtt"
    bool proxy_protocol = false;  ///< each connection begins with a PROXY header

    bool for_clients() const { return scheme != Scheme::http; }
    bool has_tls() const { return scheme == Scheme::mqtts || scheme == Scheme::wss; }
    bool is_websocket() const { return scheme == Scheme::ws || scheme == Scheme::wss; }

    std::string text() const;
};

/// All settings. The flag and the file's line `idle-timeout` set `idle_timeout`.
struct Config : BrokerSettings {
    std::vector<ListenUrl> listen;
    unsigned shards = 0;
    Millis login_timeout = 10'000;
    Millis websocket_ping = 0;
    std::vector<std::string> websocket_origin;
    Millis stop_wait = 3'000;
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
    bool demo = false;
    bool rooms_are_stated = false;  ///< `rooms` was set; else it is by what is known of the users
    std::string events;
    std::string data;  ///< the folder; "": nothing is stored
    Fsync fsync = Fsync::always;
    std::size_t max_data_bytes = 0;  ///< 0: four fifths of what the disk has for it
    WebhookSettings webhook;
    std::optional<bool> presence_feed;  ///< nothing: if the changes are on disk
    std::size_t event_log_bytes = 0;    ///< 0: as the store has room for it
    spdlog::level::level_enum log_level = spdlog::level::info;

    bool keeps_presence() const { return presence_feed.value_or(!data.empty()); }
};

/// A setting that can't be used. The message names the setting and the remedy.
class ConfigError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The command line asks for a text on standard output (`--help`, `--version`), not for serving.
struct UsageRequested {
    std::string text;
};

/// Reads flags and, with `--config`, a file of settings with the same names. Throws ConfigError, or
/// UsageRequested for `--help` and `--version`.
Config parse_config(int argc, const char* const* argv);

}  // namespace pulsegate
