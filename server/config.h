#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/clock.h"
#include "server/session/settings.h"

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
struct Config : BrokerSettings {
    std::vector<ListenUrl> listen;
    unsigned shards = 0;
    Millis login_timeout = 10'000;
    bool allow_anonymous = false;
    std::string events;
    spdlog::level::level_enum log_level = spdlog::level::info;
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
