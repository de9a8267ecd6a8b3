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

/// When a token without `iat` was issued, for all that is known.
inline constexpr std::int64_t issued_long_ago = std::numeric_limits<std::int64_t>::min();

/// From which moment on the tokens of a user must have been issued to be good. A token without
/// `exp` is good for ever, so this is never forgotten. It belongs to the thread of the shard where
/// the users are at home.
class Revocations {
public:
    /// Tokens that were issued before then, in seconds since 1970, are good no more; an earlier
    /// moment than before changes nothing. False if there are too many users.
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
