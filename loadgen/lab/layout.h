#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "loadgen/lab/limits.h"
#include "loadgen/scenario/scenario.h"
#include "loadgen/scenario/target.h"

namespace pulsegate::load {

/// The machine can't hold a run: files, ports, memory.
struct LimitError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// How a run is divided among workers, checked against the machine.
struct Layout {
    std::uint32_t workers = 1;
    std::uint32_t sources = 0;       ///< loopback addresses; 0: the system's choice
    std::uint32_t in_progress = 0;   ///< maximum number of logins in progress at once, for each
                                     ///< worker
    std::vector<std::string> notes;  ///< notes about choices that the user may not expect
};

/// The part of the layout that the command line sets; the machine decides the rest.
struct LayoutOptions {
    std::optional<std::uint32_t> workers{};
    std::optional<std::uint32_t> sources{};
    std::uint32_t in_progress = 200;  ///< for all workers together
    bool loopback = true;    ///< all servers are in 127.0.0.0/8: any source address in it works
    bool elsewhere = false;  ///< the workers are on other machines, and check for themselves
};

/// Throws `LimitError`, one line with the remedy, if the machine can't hold the run.
Layout lay_out(const Scenario& scenario, const Target& target, const LayoutOptions& options,
               const MachineLimits& limits);

/// Checks on a worker's own machine that the worker can open enough files and ports. Throws as
/// above.
void check_share(const Scenario& scenario, std::uint32_t workers, const MachineLimits& limits);

/// The maximum number of connections that the clients have open at once. Some clients leave
/// half-open connections behind.
std::uint64_t connections_of(const Scenario& scenario);

/// The maximum number of clients of a built-in scenario without --clients: as many as fit into one
/// process, because the server's limit is probably the same.
std::uint32_t usual_clients(std::uint32_t written, const MachineLimits& limits);

/// Groups without a transport use the one of the first server. Each transport must have a server.
/// Throws `std::runtime_error`.
void settle_transports(Scenario& scenario, const Target& target);

}  // namespace pulsegate::load
