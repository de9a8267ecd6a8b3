#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/owner_thread.h"

namespace pulsegate {

/// The assumed time of issue of a token without `iat`.
inline constexpr std::int64_t issued_long_ago = std::numeric_limits<std::int64_t>::min();

/// For each user, the time before which issued tokens are revoked, and when that was ordered. A
/// token without `exp` never expires, so revocations are never forgotten. It belongs to the thread
/// of the users' home shard. It has no clock.
class Revocations {
public:
    /// Revokes tokens that were issued before this time, in seconds since 1970. An earlier time
    /// than before changes no token. False if there are too many users.
    [[nodiscard]] bool revoke(std::string_view user, std::int64_t before, Millis now);

    [[nodiscard]] bool revoked(std::string_view user, std::int64_t issued) const;

    /// Were the user's logins revoked after the auth hook was asked at this time? It is not known
    /// when an order of an earlier process was given, so it counts as given at its `before`.
    [[nodiscard]] bool revoked_since(std::string_view user, Millis asked) const;

    std::size_t size() const { return orders_.size(); }

    static constexpr std::size_t most_users = 1'000'000;
    static constexpr std::size_t most_name_bytes = 64 * 1024 * 1024;

private:
    struct Order {
        std::int64_t before;
        Millis given;
    };
    boost::unordered_flat_map<std::string, Order, TextHash, std::equal_to<>> orders_;
    std::size_t name_bytes_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
