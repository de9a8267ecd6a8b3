#pragma once

#include <cstdint>

namespace pulsegate {

/// Identifies a session while the process runs; modulo the number of shards it is the session's
/// home shard.
using SessionId = std::uint64_t;

}  // namespace pulsegate
