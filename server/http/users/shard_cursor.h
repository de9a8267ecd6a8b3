#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/session/users/presence.h"

namespace pulsegate {

/// A page ends behind so many bytes, whatever `limit` says: names may have 64 KiB each.
constexpr std::size_t most_page_bytes = 1024 * 1024;

/// Behind which user or client a page begins, as `next` and `after` have it: shards come one after
/// the other, and on each the users in the order of their last change.
struct ShardCursor {
    std::size_t shard = 0;
    PresencePosition user{};
    std::uint64_t session = 0;  ///< see ClientPosition

    /// Does a page begin between two clients of a user?
    enum class Within : std::uint8_t { users, clients };

    std::string text() const;
    /// Throws BadRequest if it is not what `text` has made for so many shards, for such pages.
    static ShardCursor parse(std::string_view text, std::size_t shards, Within within);
};

}  // namespace pulsegate
