#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loadgen/report/record.h"
#include "loadgen/scenario/scenario.h"

namespace pulsegate::load {

/// Judges a run by its measurements: `record.totals`, `series`, `marks`, `clients`, `interrupted`
/// and `server`. The server's promises come first, then the generator's own. If the generator was
/// the bottleneck, the server's checks are `refused`. Only faults that a slow generator can't
/// cause, such as a message that came twice, still fail.
std::vector<CheckResult> judge_run(const Scenario& scenario, const RunRecord& record);

/// Some client was watched, but no watcher was told anything, so presence can't be judged.
bool shows_no_presence(const Scenario& scenario, const RunRecord& record);

/// Why this run has no result about the server: the generator or its machine was the bottleneck.
/// Nothing if it was not.
std::optional<std::string> bottleneck(const RunRecord& record);

/// Is it about the generator and its machine? Otherwise it is a promise of the server.
bool is_own(const CheckResult& check);

/// The outcome of all checks: failed if one failed, else refused if one was refused, else passed.
CheckResult::Outcome overall(const std::vector<CheckResult>& checks);

/// "Passed: 16 checks ...": one sentence for the top of a report.
std::string verdict_sentence(const RunRecord& record);

}  // namespace pulsegate::load
