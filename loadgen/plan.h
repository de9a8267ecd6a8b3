#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/machine.h"
#include "loadgen/options.h"

namespace pulsegate::load {

/// The server promises to close a silent client within one tick of its wheel after the limit.
constexpr Duration server_tick = std::chrono::seconds(1);

/// A delay of the event loop beyond this is a stall: times that were measured across it are
/// unclear.
constexpr Duration stall = std::chrono::milliseconds(100);

/// Talkers ping after a random part of the keepalive between these.
constexpr double earliest_ping = 0.75;
constexpr double latest_ping = 1.0;

/// What the run will do: the options, completed and checked against the machine.
struct Plan {
    Options options;
    bool loopback = true;  ///< the server is in 127.0.0.0/8: any source address in it works
    std::uint32_t clients = 0;
    std::uint32_t storm = 0;  ///< number of clients in the storm, the last ones
    std::uint32_t sources = 1;
    std::uint32_t in_progress = 0;
    double messages = 0;
    Duration limit{};
    Duration silent_over{};
    std::vector<std::string> notes;  ///< choices that the user may not expect

    /// Clients that are not in the storm; they talk or fall silent.
    std::uint32_t established() const { return clients - storm; }

    /// Silent clients are spread evenly among the established.
    bool falls_silent(std::uint32_t client) const;
    std::uint32_t silent_clients() const;

    /// Time from the end of the ramp until the last silent client can be judged.
    Duration judged_after() const {
        return options.silent_after + silent_over + limit + server_tick + options.tolerance;
    }
};

/// Throws `std::runtime_error`, one line with the remedy, if the machine's limits don't allow the
/// options.
Plan make_plan(const Options& options, bool loopback, const Machine& machine);

}  // namespace pulsegate::load
