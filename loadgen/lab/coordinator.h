#pragma once

#include "loadgen/lab/run_request.h"
#include "loadgen/lab/worker_pool.h"
#include "loadgen/net/interruption.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

/// Carries out a run with these workers, shows its progress on standard error, and judges it.
/// Throws `std::runtime_error` if the run has no result about the server: a worker died, could not
/// begin, or was silent for too long.
RunRecord carry_out(const PreparedRun& run, WorkerPool& pool, Interruption& interruption);

}  // namespace pulsegate::load
