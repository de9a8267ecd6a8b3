#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "server/redis/redis_reader.h"
#include "server/redis/redis_reply.h"
#include "server/redis/redis_socket.h"
#include "server/redis/redis_target.h"

namespace pulsegate {

/// Commands to one server, Redis or Sentinel, and its replies. It blocks its thread, until a
/// deadline at most. After a RedisError each further `receive` throws the same.
class RedisStream {
public:
    using Clock = RedisSocket::Clock;
    using Words = std::span<const std::string_view>;

    /// `tls` must outlive it; null: without TLS. Throws RedisError.
    RedisStream(const RedisAddress& address, const RedisTls* tls, Clock::time_point deadline)
        : address_(address.text()), socket_(address, tls, deadline) {}

    /// The next `receive` sends the command.
    void send(Words words) { append_redis_command(out_, words); }
    /// The reply to the oldest unanswered command. Throws RedisError.
    RedisReply receive(Clock::time_point deadline);

    const std::string& address() const { return address_; }

private:
    void flush(Clock::time_point deadline);
    RedisReply read_reply(Clock::time_point deadline);
    [[noreturn]] void fail(std::string trouble);

    std::string address_;
    RedisSocket socket_;
    RedisReader reader_{};
    std::string out_{};
    std::string unsent_{};   ///< why commands could not be sent, or ""
    std::string trouble_{};  ///< why `receive` has failed, or ""
};

}  // namespace pulsegate
