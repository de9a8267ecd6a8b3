#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/limits/admission.h"
#include "server/login/auth_hook.h"
#include "server/shard_status.h"

namespace pulsegate {

/// All metrics in Prometheus' text format; those of the shards have the label `shard`.
std::string metrics_text(const std::vector<ShardStatus>& shards, const Admission& admission,
                         const std::optional<HookCounters>& hook);

}  // namespace pulsegate
