#pragma once

#include "loadgen/lab/command_line.h"

namespace pulsegate::load {

/// Each function returns the exit status. A `std::exception` says why there is nothing to report.
int run(const RunCommand& command);
int run(const CompareCommand& command);
int run(const PaperCommand& command);
int run(const KillCommand& command);
int run(const WorkerCommand& command);
int run(const Printout& printout);

}  // namespace pulsegate::load
