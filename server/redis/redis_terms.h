#pragma once

#include <cstdint>

#include "server/redis/redis_connection.h"

namespace pulsegate {

/// How many acknowledged writes survive a power cut of Redis: all, all but the last second, none.
enum class RedisDurability : std::uint8_t { none, everysec, always };

struct RedisTerms {
    RedisDurability durability = RedisDurability::always;
    unsigned replicas = 0;  ///< the least number of connected replicas
};

/// Redis guarantees less than the terms require. The message has the command that corrects it, and
/// the connection still works.
class RedisTermsError : public RedisError {
public:
    using RedisError::RedisError;
};

/// Checks that this Redis guarantees what the terms require. Throws RedisError.
void check_terms(RedisConnection& redis, const RedisTerms& terms,
                 RedisConnection::Clock::time_point deadline);

}  // namespace pulsegate
