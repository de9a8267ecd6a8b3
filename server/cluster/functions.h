#pragma once

#include <string_view>

#include "server/redis/redis_connection.h"

namespace pulsegate {

/// pg1.lua.
extern const std::string_view cluster_functions;

/// Loads pg1.lua, unless this Redis has it, or a later version of it. Throws RedisError, or
/// std::runtime_error with the cure.
void load_functions(RedisConnection& redis, RedisConnection::Clock::time_point deadline);

}  // namespace pulsegate
