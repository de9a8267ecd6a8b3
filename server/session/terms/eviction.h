#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

/// Which clients of a user the admin API throws out.
struct Eviction {
    std::string user;
    std::optional<std::string> client{};  ///< nothing: all of them
    bool ends_sessions = false;           ///< or they may come back to their sessions
    bool drops_wills = false;             ///< of those who are away as well
    WallMillis arrived_by = 0;            ///< who has come later is not meant
    /// Nor who came by a token that was issued then or later, in seconds since 1970.
    std::optional<std::int64_t> tokens_spared_since{};
    const char* why = "the admin API has thrown it out";
};

/// One that was disconnected because its address was banned.
struct BannedClient {
    std::string user;
    std::string client;
};

/// A part of it.
struct Evicted {
    std::size_t disconnected = 0;
    std::size_t ended = 0;    ///< sessions
    std::size_t leaving = 0;  ///< clients that were told to go before, and are still there
    std::size_t wills = 0;    ///< that were dropped
    std::vector<BannedClient> banned{};  ///< those who were disconnected, if it is about an address

    /// Clients that were thrown out, or were away and have lost their sessions.
    std::size_t clients() const { return std::max(disconnected, ended); }
};

}  // namespace pulsegate
