#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/redis/redis_target.h"

namespace pulsegate {

/// Which CAs are trusted.
class RedisTls {
public:
    /// A PEM file, or with "" the system's CAs. Throws RedisError.
    explicit RedisTls(const std::string& ca_file);
    ~RedisTls();
    RedisTls(const RedisTls&) = delete;
    RedisTls& operator=(const RedisTls&) = delete;

private:
    friend class RedisSocket;
    struct Context;
    std::unique_ptr<Context> context_;
};

/// A connection with bytes in both directions, where each call ends at its deadline. It belongs to
/// one thread, which it blocks. All calls throw RedisError; after that only the destructor is of
/// use, but what came before an error of `write` may still be read.
class RedisSocket {
public:
    using Clock = std::chrono::steady_clock;

    /// `tls`, which may be null, outlives it. The server's certificate must be made out to the
    /// host.
    RedisSocket(const RedisAddress& address, const RedisTls* tls, Clock::time_point deadline);
    ~RedisSocket();
    RedisSocket(const RedisSocket&) = delete;
    RedisSocket& operator=(const RedisSocket&) = delete;

    void write(std::string_view bytes, Clock::time_point deadline);

    /// Returns how many bytes came: at least one.
    std::size_t read(std::span<char> room, Clock::time_point deadline);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
