#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/report/record.h"
#include "loadgen/scenario/scenario.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The limits that a server must keep so that a load counts as held.
struct Objectives {
    Duration p99 = std::chrono::milliseconds(100);
    std::uint64_t false_offline = 0;
    std::uint64_t losses = 0;
    double server_cpu = 0.9;  ///< share of its machine's cores, if that can be seen
};

/// "p99=100ms,false-offline=0,losses=0,server-cpu=90%"; unnamed objectives keep their defaults.
/// Throws `std::invalid_argument` with the remedy.
Objectives parse_objectives(std::string_view text);

/// An objective that a run missed, and the time since it was missed.
struct Miss {
    double second = 0;
    std::string name;    ///< "p99 of messages"
    std::string detail;  ///< "240 ms, with 0.98 cores of the server busy"
};

/// In the order in which they were missed; empty: the run held.
std::vector<Miss> misses(const Objectives& objectives, const Scenario& scenario,
                         const RunRecord& record);

}  // namespace pulsegate::load
