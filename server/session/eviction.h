#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace pulsegate {

/// Which clients of a user the admin API throws out.
struct Eviction {
    std::string user;
    std::optional<std::string> client{};  ///< nothing: all of them
    bool ends_sessions = false;           ///< or they may come back to their sessions
};

/// A part of it.
struct Evicted {
    std::size_t disconnected = 0;
    std::size_t ended = 0;     ///< sessions
    std::size_t sessions = 0;  ///< that the user had before

    /// Clients that were thrown out, or were away and have lost their sessions.
    std::size_t clients() const { return std::max(disconnected, ended); }
};

}  // namespace pulsegate
