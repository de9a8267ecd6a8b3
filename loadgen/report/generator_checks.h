#pragma once

#include <vector>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// Was the generator fast enough to judge the server? The checks are passed, skipped or refused,
/// but never failed, because a slow generator is not the server's fault.
std::vector<CheckResult> generator_checks(const RunRecord& record);

/// The same for the ramp, in which a generator may be busy. They matter only for faults in the
/// ramp.
std::vector<CheckResult> ramp_checks(const RunRecord& record);

}  // namespace pulsegate::load
