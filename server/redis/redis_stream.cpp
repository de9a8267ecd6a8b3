#include "server/redis/redis_stream.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace pulsegate {

namespace {

constexpr std::size_t read_at_once = 64 * 1024;

}  // namespace

RedisReply RedisStream::receive(Clock::time_point deadline) {
    if (!trouble_.empty()) throw RedisError(trouble_);
    flush(deadline);
    return read_reply(deadline);
}

/// Does not throw, because a server that hangs up may have sent the reason, which must still be
/// read.
void RedisStream::flush(Clock::time_point deadline) {
    if (out_.empty() || !unsent_.empty()) return;
    const std::string bytes = std::exchange(out_, {});
    try {
        socket_.write(bytes, deadline);
    } catch (const RedisError& error) {
        unsent_ = error.what();
    }
}

RedisReply RedisStream::read_reply(Clock::time_point deadline) {
    std::array<char, read_at_once> bytes;
    for (;;) {
        try {
            if (auto reply = reader_.next()) return std::move(*reply);
        } catch (const std::runtime_error& error) {
            fail(fmt::format("Redis at {}: {}", address_, error.what()));
        }
        try {
            reader_.feed({bytes.data(), socket_.read(bytes, deadline)});
        } catch (const RedisError& error) {
            fail(unsent_.empty() ? error.what() : unsent_);
        }
    }
}

void RedisStream::fail(std::string trouble) {
    trouble_ = std::move(trouble);
    throw RedisError(trouble_);
}

}  // namespace pulsegate
