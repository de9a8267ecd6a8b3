#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loadgen/plan.h"
#include "loadgen/results.h"

namespace pulsegate::load {

/// How long a client had been silent when its close was seen.
struct Close {
    Duration since_before_send{};  ///< the longest possible, as the send took time
    Duration since_after_send{};
    Duration blind{};  ///< the close may have been this much before it was seen
};

enum class Timing { in_time, early, late, unclear };

/// Was a silent client closed between `limit` and one tick later? `unclear` if the generator had
/// stalled.
Timing judge(const Close& close, Duration limit, Duration tolerance);

/// Was the server right to close a talking client, because the generator sent nothing in time?
bool starved(const Close& close, Duration limit);

/// A promise of the server, and whether the run confirmed it.
struct Check {
    enum class Outcome { passed, failed, skipped };

    const char* name;  ///< in JSON
    std::string promise;
    Outcome outcome;
    std::string detail;
};

/// The p99 in the storm divided by the quiet one; nothing if one of them is unknown.
std::optional<double> p99_ratio(const Histogram& quiet, const Histogram& storm);

std::vector<Check> check(const Plan& plan, const Results& results);

bool passed(const std::vector<Check>& checks);

}  // namespace pulsegate::load
