#pragma once

#include <span>
#include <string>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// The table at the end of a run.
std::string text_report(const RunRecord& record);

/// Several runs side by side, with their differences to the first one.
std::string text_comparison(std::span<const RunRecord> records);

}  // namespace pulsegate::load
