#pragma once

#include <cstdint>

namespace pulsegate {

/// Identifies a session while the process runs. The id modulo the number of shards is the session's
/// home shard.
using SessionId = std::uint64_t;

}  // namespace pulsegate
