#pragma once

#include <string>

#include "server/redis/redis_reply.h"

namespace pulsegate {

/// An error of Redis, with the remedy if it is known.
std::string with_remedy(const RedisReply& error);

}  // namespace pulsegate
