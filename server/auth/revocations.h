#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "server/base/hash.h"
#include "server/base/owner_thread.h"

namespace pulsegate {

/// The assumed time of issue of a token without `iat`.
inline constexpr std::int64_t issued_long_ago = std::numeric_limits<std::int64_t>::min();

/// For each user, the time before which issued tokens are revoked. A token without `exp` never
/// expires, so revocations are never forgotten. It belongs to the thread of the users' home shard.
class Revocations {
public:
    /// Revokes tokens that were issued before this time, in seconds since 1970. An earlier time
    /// than before changes nothing. False if there are too many users.
    [[nodiscard]] bool revoke(std::string_view user, std::int64_t before);

    [[nodiscard]] bool revoked(std::string_view user, std::int64_t issued) const;

    std::size_t size() const { return before_.size(); }

    static constexpr std::size_t most_users = 1'000'000;
    static constexpr std::size_t most_name_bytes = 64 * 1024 * 1024;

private:
    boost::unordered_flat_map<std::string, std::int64_t, TextHash, std::equal_to<>> before_;
    std::size_t name_bytes_ = 0;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
