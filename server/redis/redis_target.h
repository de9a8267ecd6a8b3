#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

struct RedisAddress {
    std::string host{};
    std::uint16_t port = 6379;

    /// As in a URL.
    std::string text() const;
};

/// Where a Redis is, and how it lets us in.
struct RedisTarget {
    std::vector<RedisAddress> addresses{};  ///< of servers to try, or of sentinels
    std::string sentinel_name{};            ///< of the primary; "": there are no sentinels
    bool tls = false;
    std::string user{};      ///< "": Redis's default user
    std::string password{};  ///< "": none
    std::string ca_file{};   ///< authorities in PEM; "": those of the system

    /// Without the password.
    std::string text() const;
};

/// `redis://[user@]host[:port][,host[:port]]…`, `rediss://…` with TLS,
/// `redis+sentinel://host[:port],…/NAME` and `rediss+sentinel://…`. Throws std::invalid_argument
/// with what is wrong.
RedisTarget parse_redis_target(std::string_view url);

}  // namespace pulsegate
