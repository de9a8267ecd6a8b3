#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/session/users/presence.h"

namespace pulsegate {

/// The user or client after which a page begins, as in `next` and `after`. Pages go through the
/// shards one after the other, and on each through the users in the order of their last change.
struct ShardCursor {
    std::size_t shard = 0;
    PresencePosition user{};
    std::uint64_t session = 0;  ///< see ClientPosition

    /// True if a page begins between two clients of a user.
    enum class Within : std::uint8_t { users, clients };

    std::string text() const;
    /// Throws BadRequest unless `text` was made by `text()` for this number of shards and this kind
    /// of page.
    static ShardCursor parse(std::string_view text, std::size_t shards, Within within);
};

}  // namespace pulsegate
