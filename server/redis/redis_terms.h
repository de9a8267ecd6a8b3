#pragma once

#include <cstdint>

#include "server/redis/redis_connection.h"

namespace pulsegate {

/// How much of what Redis has answered survives a power cut: all, all but the last second, nothing.
enum class RedisDurability : std::uint8_t { none, everysec, always };

struct RedisTerms {
    RedisDurability durability = RedisDurability::always;
    unsigned replicas = 0;  ///< that must be connected
};

/// Does this Redis promise what is asked for? Throws RedisError with the command that cures it.
void check_terms(RedisConnection& redis, const RedisTerms& terms,
                 RedisConnection::Clock::time_point deadline);

}  // namespace pulsegate
