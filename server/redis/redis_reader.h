#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/redis/redis_reply.h"

struct redisReader;

namespace pulsegate {

/// Appends a command's bytes, as Redis reads them.
void append_redis_command(std::string& out, std::span<const std::string_view> words);

/// Finds the replies in the bytes from Redis, with hiredis's reader. It limits the size of a reply,
/// whatever the other side claims.
class RedisReader {
public:
    struct Limits {
        std::size_t bytes = std::size_t{512}
                            << 20;                 ///< about the limit that Redis sets for a value
        std::size_t items = std::size_t{1} << 20;  ///< in all of its arrays
    };

    RedisReader() : RedisReader(Limits()) {}
    explicit RedisReader(Limits limits);
    RedisReader(const RedisReader&) = delete;
    RedisReader& operator=(const RedisReader&) = delete;
    ~RedisReader();

    void feed(std::string_view bytes);

    /// The next reply; nothing if it is incomplete. Throws std::runtime_error if it is malformed or
    /// too large; then nothing more can be read.
    std::optional<RedisReply> next();

private:
    struct Builder;
    struct Free {
        void operator()(redisReader* reader) const;
    };

    std::unique_ptr<Builder> builder_;
    std::unique_ptr<redisReader, Free> reader_;
};

}  // namespace pulsegate
