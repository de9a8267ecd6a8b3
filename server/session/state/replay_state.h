#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/packet.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// A session's progress in receiving retained messages; see Replay. Sessions without requests have
/// none.
struct ReplayState {
    struct Request {
        std::string filter{};  ///< empty: all presence that the session subscribes to
        SubscribeOptions options{};
        std::uint32_t identifier = 0;
        PresencePosition since{};  ///< only users that changed after this
        /// The store is told when it is complete, so that it continues after a crash.
        bool is_owed = false;
    };

    std::vector<Request> requests;  ///< the first one is being answered
    /// All retained messages of clients for the first request are sent.
    bool retained_done = false;
    std::string after{};          ///< the topic of the last message that was examined
    std::uint64_t query = 0;      ///< id of the query in progress; pages of others are ignored
    std::size_t asked = 0;        ///< how many `requests` about single users the query asks for
    unsigned shard = 0;           ///< the shard that is queried for presence
    PresencePosition position{};  ///< position of the last user there that was examined
    bool waiting = false;         ///< until the client's backlog is empty
};

}  // namespace pulsegate
