#pragma once

#include "loadgen/lab/interruption.h"
#include "loadgen/lab/run_request.h"
#include "loadgen/lab/worker_pool.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

/// Carries out a run with these workers, shows how it goes on standard error, and judges it.
/// Throws `std::runtime_error` if the run says nothing about the server: a worker died, could not
/// begin, or has said nothing for long.
RunRecord carry_out(const PreparedRun& run, WorkerPool& pool, Interruption& interruption);

}  // namespace pulsegate::load
