#pragma once

#include <span>
#include <string>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// One self-contained page about a run, or about several runs side by side. It needs no network.
std::string html_report(std::span<const RunRecord> records);

}  // namespace pulsegate::load
