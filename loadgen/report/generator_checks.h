#pragma once

#include <vector>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// Was the generator fast enough to judge anybody? Passed, skipped or refused, never failed: a slow
/// generator is no fault of the server.
std::vector<CheckResult> generator_checks(const RunRecord& record);

}  // namespace pulsegate::load
