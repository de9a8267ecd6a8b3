#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/clock.h"
#include "server/session/broker.h"

namespace pulsegate {

/// Where to listen, and for what: `mqtt://host:port` or `http://host:port`.
struct ListenUrl {
    enum class Scheme : std::uint8_t { mqtt, http };
    Scheme scheme;
    std::string host;
    std::uint16_t port;

    std::string text() const;
};

/// Every setting, under the name it has as a flag and in the file: `idle-timeout` is
/// `idle_timeout`.
struct Config {
    std::vector<ListenUrl> listen;
    unsigned shards = 0;
    Millis idle_timeout = 30'000;
    bool strict_idle_timeout = false;
    Millis login_timeout = 10'000;
    Millis forget_after = 24 * 3600 * 1000;
    UserFrom user_from = UserFrom::username;
    std::size_t max_packet_size = 256 * 1024;
    std::size_t output_budget = 1024 * 1024;
    std::size_t max_subscriptions = 1000;
    bool allow_anonymous = false;
    std::string events;
    spdlog::level::level_enum log_level = spdlog::level::info;

    BrokerSettings broker() const;
};

/// A setting that can't be used: the message names it and the remedy.
class ConfigError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What the command line asks for instead of serving: text for standard output.
struct Informed {
    std::string text;
};

/// Reads flags and, with `--config`, a file of the same names. Throws ConfigError, or Informed for
/// `--help` and `--version`.
Config parse_config(int argc, const char* const* argv);

}  // namespace pulsegate
