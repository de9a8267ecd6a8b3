#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/redis/redis_reply.h"
#include "server/redis/redis_stream.h"
#include "server/redis/redis_target.h"

namespace pulsegate {

/// An authenticated connection to the primary of a Redis. It blocks its thread, until a deadline at
/// most. After a RedisError it can't be used any more.
class RedisConnection {
public:
    using Clock = RedisStream::Clock;
    using Words = std::span<const std::string_view>;

    /// Finds the primary: the first address that says it is one and has loaded its data, or the one
    /// that a Sentinel names. Each address gets its share of the time. Throws RedisError;
    /// RedisLoadingError if one of the servers still reads its data.
    RedisConnection(const RedisTarget& target, Clock::time_point deadline);

    /// Throws RedisError.
    RedisReply call(Words words, Clock::time_point deadline);
    RedisReply call(std::initializer_list<std::string_view> words, Clock::time_point deadline) {
        return call(Words(words.begin(), words.size()), deadline);
    }

    // Several commands may be under way; the replies come in their order.

    /// The next `receive` sends the command.
    void send(Words words);
    void send(std::initializer_list<std::string_view> words) {
        send(Words(words.begin(), words.size()));
    }
    /// Throws RedisError.
    RedisReply receive(Clock::time_point deadline) { return stream_->receive(deadline); }

    /// "10.0.0.1:6379"
    const std::string& address() const { return stream_->address(); }
    /// The id of this run of the server. A restarted server, or another one, has another id.
    const std::string& run_id() const { return run_id_; }
    /// See `run_of`.
    const std::string& run() const { return run_; }
    /// "7.0.15"
    const std::string& version() const { return version_; }

private:
    std::unique_ptr<RedisTls> tls_;  ///< null: without TLS
    std::unique_ptr<RedisStream> stream_;
    std::string run_id_;
    std::string run_;
    std::string version_;
};

/// The value of a line `name:value` of INFO; "" if there is none.
std::string info_field(std::string_view info, std::string_view name);

/// The run of a primary's data: it changes when the server may have lost changes. A server that was
/// a replica for a while has its `run_id` still, but it may have discarded what its primary had
/// not. `info` is its INFO, with the section on replication.
std::string run_of(const std::string& run_id, std::string_view info);

}  // namespace pulsegate
