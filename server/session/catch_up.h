#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "protocol/packet.h"
#include "server/message.h"

namespace pulsegate {

/// A question to the shard `asked`: the next presence messages that `filter` selects there. It
/// answers with a PresencePage. Pages keep a subscriber to everybody's presence within its budget.
struct PresenceQuestion {
    unsigned asker;
    unsigned asked;
    std::uint64_t id;
    std::string filter;
    std::uint64_t since_version;  ///< only users whose version is not below it
    std::size_t from;
};

struct PresencePage {
    std::uint64_t id;  ///< of the question
    std::size_t next;  ///< where the next page begins; 0: that was all
    std::vector<MessageRef> messages;
};

/// A session that is being told how presence stands, page by page and shard by shard: because it
/// has just subscribed, or because changes came faster than it could take them. Presence is a
/// state: who can't keep up is told the latest instead of every step.
struct CatchUp {
    struct Wish {
        std::string filter;  ///< empty: whatever the session subscribes to
        QoS qos = QoS::at_most_once;
        std::uint32_t identifier = 0;
        std::uint64_t since_version = 0;
    };

    std::deque<Wish> wishes;      ///< the first is being answered
    std::uint64_t question = 0;   ///< the one under way; a page for another comes too late
    unsigned shard = 0;           ///< who is asked
    std::size_t from = SIZE_MAX;  ///< the position there
    bool waiting = false;         ///< for the client to take the last page
};

}  // namespace pulsegate
