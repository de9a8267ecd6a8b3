#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loadgen/plan.h"
#include "loadgen/results.h"

namespace pulsegate::load {

/// How long a client had been silent when its close was seen.
struct Close {
    Duration since_before_send{};  ///< the longest it can have been: the send may have taken time
    Duration since_after_send{};
    Duration blind{};  ///< the close may have come this much before it was seen
};

enum class Timing { in_time, early, late, unclear };

/// Was a silent client closed between `limit` and one tick later? Times that prove nothing, because
/// the generator had stalled, are `unclear`.
Timing judge(const Close& close, Duration limit, Duration tolerance);

/// Was the server right to close a client that meant to talk? Then the generator let it starve.
bool starved(const Close& close, Duration limit);

/// One promise and whether the server kept it.
struct Check {
    enum class Outcome { passed, failed, skipped };

    const char* name;  ///< in JSON
    std::string promise;
    Outcome outcome;
    std::string detail;
};

/// How many times the quiet one the p99 of the storm is; nothing if one of them is not known.
std::optional<double> p99_ratio(const Histogram& quiet, const Histogram& storm);

std::vector<Check> check(const Plan& plan, const Results& results);

bool passed(const std::vector<Check>& checks);

}  // namespace pulsegate::load
