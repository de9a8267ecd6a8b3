#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/admission/admission.h"
#include "server/auth_hook.h"
#include "server/shard.h"

namespace pulsegate {

/// All metrics in Prometheus' text format; those of the shards have the label `shard`.
std::string metrics_text(const std::vector<ShardStatus>& shards, const Admission& admission,
                         const std::optional<HookCounters>& hook);

}  // namespace pulsegate
