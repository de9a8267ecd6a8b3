#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/measure/measurements.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

std::string_view label_of(Timing timing);  ///< "message latency"

std::string show_bytes(double bytes);                ///< "35.2 MB"
std::string show_moment(std::int64_t unix_seconds);  ///< "2026-11-24 16:00:00 UTC"
std::string show_cores(double cores);                ///< "28 % of a core", "3.2 cores"

/// The unit of a figure.
enum class Unit : std::uint8_t { count, per_second, time, cores, bytes, share };

std::string show_figure(double value,
                        Unit unit);  ///< "15,000", "2,185/s", "1.2 ms", "35 MB", "9 %"

/// One line each about the run, the machine and the server.
std::string about_run(const RunRecord& record);
std::string about_machine(const MachineDescription& machine);
std::string about_server(const ServerDescription& server);

}  // namespace pulsegate::load
