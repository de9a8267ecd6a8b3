#pragma once

#include <string>
#include <vector>

#include "loadgen/plan.h"
#include "loadgen/results.h"
#include "loadgen/verdict.h"

namespace pulsegate::load {

/// The plan in two or three lines.
std::string announce(const Plan& plan);

/// The report at the end: numbers, checks, examples of failures, notes.
std::string table(const Plan& plan, const Results& results, const std::vector<Check>& checks);

/// The same as JSON, with the settings; times in seconds.
std::string as_json(const Plan& plan, const Results& results, const std::vector<Check>& checks);

}  // namespace pulsegate::load
