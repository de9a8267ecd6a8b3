#pragma once

#include <cstdint>

#include "loadgen/scenario/scenario.h"
#include "loadgen/scenario/target.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The part of a run that one worker has to do: all clients whose number is `worker` modulo
/// `workers`.
struct Assignment {
    Scenario scenario;
    Target target;
    std::uint32_t worker = 0;
    std::uint32_t workers = 1;
    std::uint64_t run = 0;   ///< names the run in topics and messages
    std::uint64_t seed = 0;  ///< of everything random, the same for all workers

    std::uint32_t in_progress = 200;  ///< logins of this worker in progress at once, at most
    std::uint32_t sources = 0;        ///< loopback addresses to come from; 0: the system's choice

    /// To be added to a time of this worker's clock to get the run's common one, which is the
    /// coordinator's. Messages carry common time.
    Duration clock_offset{};
};

}  // namespace pulsegate::load
