#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "loadgen/report/record.h"
#include "loadgen/report/table.h"

namespace pulsegate::load {

/// The table at the end of a run.
std::string text_report(const RunRecord& record);

/// The checks and their outcomes.
void add_checks(TextTable& out, const std::vector<CheckResult>& checks);

/// Several runs side by side, with their differences to the first one. Each run has `repeats`
/// repeats, and shows their median and spread.
std::string text_comparison(std::span<const RunRecord> records, std::size_t repeats = 1);

}  // namespace pulsegate::load
