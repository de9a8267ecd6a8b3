#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/base/clock.h"

namespace pulsegate {

/// Selects the clients of a user that the HTTP API disconnects.
struct Eviction {
    std::string user;
    std::optional<std::string> client{};  ///< nothing: all clients of the user
    bool ends_sessions = false;           ///< otherwise they may come back to their sessions
    bool drops_wills = false;             ///< also the wills of absent clients
    WallMillis arrived_by = 0;            ///< clients that logged in later are left out
    /// Clients with a token that was issued at this time or later are left out; in seconds since
    /// 1970.
    std::optional<std::int64_t> tokens_spared_since{};
    const char* why = "the HTTP API has thrown it out";
};

/// A client that was disconnected because its address was banned.
struct BannedClient {
    std::string user;
    std::string client;
};

/// The result of one call that disconnects clients.
struct Evicted {
    std::size_t disconnected = 0;
    std::size_t ended = 0;    ///< sessions
    std::size_t leaving = 0;  ///< clients that were told to leave before, and are still connected
    std::size_t wills = 0;    ///< the number of dropped wills
    std::vector<BannedClient> banned{};  ///< the disconnected clients, if an address was banned

    /// Clients that were disconnected, or that were absent and have lost their sessions.
    std::size_t clients() const { return std::max(disconnected, ended); }
};

}  // namespace pulsegate
