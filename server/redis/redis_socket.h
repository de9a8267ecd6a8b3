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

/// The trusted CAs.
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

/// A connection for bytes in both directions. Each call ends at its deadline. It belongs to one
/// thread, which it blocks. All calls throw RedisError. After that only the destructor may be
/// called, except that bytes which arrived before an error of `write` may still be read.
class RedisSocket {
public:
    using Clock = std::chrono::steady_clock;

    /// `tls` may be null, and must outlive it. The server's certificate must be issued for the
    /// host.
    RedisSocket(const RedisAddress& address, const RedisTls* tls, Clock::time_point deadline);
    ~RedisSocket();
    RedisSocket(const RedisSocket&) = delete;
    RedisSocket& operator=(const RedisSocket&) = delete;

    void write(std::string_view bytes, Clock::time_point deadline);

    /// Returns the number of bytes read: at least one.
    std::size_t read(std::span<char> room, Clock::time_point deadline);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
