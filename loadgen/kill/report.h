#pragma once

#include <string>
#include <vector>

#include "loadgen/kill/options.h"
#include "loadgen/kill/results.h"
#include "loadgen/report/record.h"

namespace pulsegate::kill {

/// The counts, and below them the faults and the checks, for people.
std::string text_report(const Options& options, const Results& results,
                        const std::vector<load::CheckResult>& checks);
std::string as_json(const Options& options, const Results& results,
                    const std::vector<load::CheckResult>& checks);

}  // namespace pulsegate::kill
