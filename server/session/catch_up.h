#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/packet.h"

namespace pulsegate {

/// A session that is being told what is retained, page by page: because it has just subscribed, or
/// because presence changed faster than it could take. Clients' retained messages are here,
/// presence is asked of shard after shard. Presence is a state: who can't keep up is told the
/// latest instead of every step.
struct CatchUp {
    struct Wish {
        std::string filter{};  ///< empty: whatever presence the session subscribes to
        SubscribeOptions options{};
        std::uint32_t identifier = 0;
        std::uint64_t since_version = 0;
    };

    std::vector<Wish> wishes;     ///< the first is being answered
    bool retained_told = false;   ///< all that the first wish selects of clients' messages
    std::string after{};          ///< the topic of the last that was told
    std::uint64_t question = 0;   ///< the one under way; an answer to another comes too late
    unsigned shard = 0;           ///< who is asked for presence
    std::size_t from = SIZE_MAX;  ///< the position there
    bool waiting = false;         ///< for the client to take the last page
};

}  // namespace pulsegate
