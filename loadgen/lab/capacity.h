#pragma once

#include <string>
#include <vector>

#include "loadgen/lab/capacity_search.h"
#include "loadgen/lab/objectives.h"
#include "loadgen/lab/run_request.h"
#include "loadgen/lab/worker_pool.h"
#include "loadgen/net/interruption.h"

namespace pulsegate::load {

/// The exit status of what gives no verdict.
inline constexpr int refused_status = 2;

struct CapacityRequest {
    RunRequest run;
    Objectives objectives;
    CapacitySearch::Settings search;
};

/// A run of the search.
struct Trial {
    double scale = 0;
    TrialOutcome outcome = TrialOutcome::refused;
    std::uint32_t clients = 0;
    double packets = 0;  ///< packets per second from the clients
    std::string reason;  ///< the objective that broke first, or the generator's bottleneck
};

struct CapacityResult {
    CapacitySearch::Verdict verdict;
    std::vector<Trial> trials;
    bool interrupted = false;
    bool failed = false;  ///< the server was gone, or a trial could not be carried out
    std::string ended;    ///< for an unfinished verdict: why there were no more trials

    /// "this machine holds 61,000 clients at 3,100 packets a second; the server's CPU broke first".
    std::string sentence() const;
    std::string json() const;
    int exit_status() const;
};

/// Runs the scenario at one scale after the other. `remote` is null for local workers.
CapacityResult measure_capacity(const CapacityRequest& asked, WorkerPool* remote,
                                const MachineLimits& limits, Interruption& interruption);

}  // namespace pulsegate::load
