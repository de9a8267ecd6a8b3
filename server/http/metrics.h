#pragma once

#include <string>
#include <vector>

#include "server/admission.h"
#include "server/shard.h"

namespace pulsegate {

/// All metrics in Prometheus' text format, each with the label `shard`.
std::string metrics_text(const std::vector<ShardStatus>& shards, const Admission& admission);

}  // namespace pulsegate
