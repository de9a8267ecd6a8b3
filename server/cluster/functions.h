#pragma once

#include <string_view>

#include "server/redis/redis_connection.h"

namespace pulsegate {

/// The text of pg1.lua.
extern const std::string_view cluster_functions;

/// Loads pg1.lua, unless this Redis has it or a later version. Throws RedisError, or
/// std::runtime_error with the remedy.
void load_functions(RedisConnection& redis, RedisConnection::Clock::time_point deadline);

}  // namespace pulsegate
