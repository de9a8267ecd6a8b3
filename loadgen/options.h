#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "loadgen/time.h"
#include "loadgen/units.h"
#include "protocol/packet.h"

namespace pulsegate::load {

/// The command line. Options that were not given and depend on the machine or on other options are
/// empty; `Plan` fills them in.
struct Options {
    Address connect{"127.0.0.1", 1883};
    std::optional<std::uint32_t> clients;
    double ramp = 2000;
    std::chrono::seconds keepalive{20};
    std::optional<double> messages;
    double silent = 0.05;
    Duration duration = std::chrono::seconds(45);

    QoS qos = QoS::at_most_once;
    Version version = Version::v3_1_1;
    std::uint32_t size = 64;

    std::optional<Duration> limit;
    Duration tolerance = std::chrono::milliseconds(100);
    Duration silent_after{};
    std::optional<Duration> silent_over;
    Duration drain = std::chrono::seconds(5);

    Share storm;
    Duration storm_after = std::chrono::seconds(10);
    Duration storm_within = std::chrono::seconds(60);
    double storm_factor = 5;

    std::uint32_t in_progress = 200;
    std::optional<std::uint32_t> sources;
    std::string json;
};

/// The text to print for `--help` or `--version`.
struct Answer {
    std::string text;
};

/// Throws `std::runtime_error`, one line that names the option and the remedy.
std::variant<Options, Answer> parse_options(int argc, const char* const* argv);

}  // namespace pulsegate::load
