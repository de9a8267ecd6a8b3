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
    std::uint32_t in_progress = 0;   ///< logins in progress at once, of each worker
    std::vector<std::string> notes;  ///< choices that the user may not expect
};

/// What the command line says of it; the machine decides the rest.
struct LayoutOptions {
    std::optional<std::uint32_t> workers{};
    std::optional<std::uint32_t> sources{};
    std::uint32_t in_progress = 200;  ///< of all workers
    bool loopback = true;    ///< all servers are in 127.0.0.0/8: any source address in it works
    bool elsewhere = false;  ///< the workers are on other machines, and check for themselves
};

/// Throws `LimitError`, one line with the remedy, if the machine can't hold the run.
Layout lay_out(const Scenario& scenario, const Target& target, const LayoutOptions& options,
               const MachineLimits& limits);

/// Of a worker, for its own machine: can it open what its part needs? Throws as above.
void check_share(const Scenario& scenario, std::uint32_t workers, const MachineLimits& limits);

/// Connections that the clients may have open at once: some leave half open ones behind.
std::uint64_t connections_of(const Scenario& scenario);

/// The most clients that a built-in scenario starts when nobody has said how many: those that fit
/// into one process, as the server's limit is probably the same.
std::uint32_t usual_clients(std::uint32_t written, const MachineLimits& limits);

/// Groups that don't say how they connect do as the first server wants; each transport must have a
/// server. Throws `std::runtime_error`.
void settle_transports(Scenario& scenario, const Target& target);

}  // namespace pulsegate::load
