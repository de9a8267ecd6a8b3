#pragma once

#include <vector>

#include "loadgen/kill/results.h"
#include "loadgen/report/record.h"

namespace pulsegate::kill {

/// The promises of a broker, and whether the run confirmed them: those about messages, those about
/// presence, and all.
std::vector<load::CheckResult> checks_of(const MessageChecker& messages);
std::vector<load::CheckResult> checks_of(const PresenceChecker& presence);
std::vector<load::CheckResult> checks_of(const Results& results);

}  // namespace pulsegate::kill
