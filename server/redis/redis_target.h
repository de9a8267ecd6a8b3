#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

struct RedisAddress {
    std::string host{};
    std::uint16_t port = 6379;

    /// The address as in a URL.
    std::string text() const;
};

/// The addresses of a Redis, and the credentials for it.
struct RedisTarget {
    std::vector<RedisAddress> addresses{};  ///< servers to try, or sentinels
    std::string sentinel_name{};            ///< the primary's name; "": there are no sentinels
    bool tls = false;
    std::string user{};      ///< "": Redis's default user
    std::string password{};  ///< "": none
    std::string ca_file{};   ///< CAs in PEM; "": the system's CAs

    /// Without the password.
    std::string text() const;
};

/// `redis://[user@]host[:port][,host[:port]]…`, `rediss://…` with TLS,
/// `redis+sentinel://host[:port],…/NAME` and `rediss+sentinel://…`. Throws std::invalid_argument
/// that names the mistake.
RedisTarget parse_redis_target(std::string_view url);

}  // namespace pulsegate
