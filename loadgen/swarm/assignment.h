#pragma once

#include <cstdint>

#include "loadgen/scenario/scenario.h"
#include "loadgen/scenario/target.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The part of a run that one worker does: all clients with a number that is `worker` modulo
/// `workers`.
struct Assignment {
    Scenario scenario;
    Target target;
    std::uint32_t worker = 0;
    std::uint32_t workers = 1;
    std::uint64_t run = 0;   ///< names the run in topics and messages
    std::uint64_t seed = 0;  ///< seed of all random choices, the same for all workers

    std::uint32_t in_progress = 200;  ///< maximum number of logins of this worker in progress at
                                      ///< once
    std::uint32_t sources = 0;        ///< loopback source addresses; 0: the system's choice

    /// Added to a time of this worker's clock, it gives the run's common time, which is the
    /// coordinator's. Messages have common time.
    Duration clock_offset{};
};

}  // namespace pulsegate::load
