#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/packet.h"

namespace pulsegate {

/// A session's progress in receiving retained messages; see Replay. Sessions without requests have
/// none.
struct ReplayState {
    struct Request {
        std::string filter{};  ///< empty: all presence that the session subscribes to
        SubscribeOptions options{};
        std::uint32_t identifier = 0;
        std::uint64_t since_version = 0;
    };

    std::vector<Request> requests;  ///< the first is being answered
    bool retained_done = false;     ///< the first request's messages of clients are sent
    std::string after{};            ///< the topic of the last message that was examined
    std::uint64_t query = 0;        ///< id of the query in progress; pages of others are ignored
    unsigned shard = 0;             ///< the shard that is queried for presence
    std::size_t from = SIZE_MAX;    ///< the index there, see Presence::visit
    bool waiting = false;           ///< until the client's backlog is empty
};

}  // namespace pulsegate
