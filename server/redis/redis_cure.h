#pragma once

#include <string>

#include "server/redis/redis_reply.h"

namespace pulsegate {

/// What Redis says in an error, and how to cure it if that is known.
std::string with_cure(const RedisReply& error);

}  // namespace pulsegate
