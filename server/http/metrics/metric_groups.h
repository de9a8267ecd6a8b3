#pragma once

#include <cstdint>

#include "server/base/counters.h"
#include "server/http/metrics/families.h"
#include "server/http/questions/api_context.h"

namespace pulsegate {

// The metrics by subject; each has a file of its own. What they mean to an operator is in
// server/docs/metrics.md, which names every one of them.

void add_client_metrics(Families& families);
void add_message_metrics(Families& families);
void add_store_metrics(Families& families);
/// The event loops, the program and its process.
void add_process_metrics(Families& families, const ApiContext& api);
/// Requests to backends, events for them, and their requests.
void add_backend_metrics(Families& families, const ApiContext& api);

/// Reads a value of a shard's status, for `Families::counter`.
inline auto count_of(std::uint64_t Counters::*member) {
    return [member](const ShardStatus& shard) { return shard.counters.*member; };
}
/// The same for `Families::gauge`.
inline auto state_of(std::size_t ShardStatus::*member) {
    return [member](const ShardStatus& shard) { return shard.*member; };
}

}  // namespace pulsegate
