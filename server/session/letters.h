#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "protocol/packet.h"
#include "server/message.h"
#include "server/store/store.h"

namespace pulsegate {

/// A question to one shard: the next presence messages that `filter` selects there. It answers with
/// a PresencePage. Pages keep a subscriber to everybody's presence within its budget.
struct PresenceQuestion {
    unsigned asker;
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

/// To oneself: time to tell a session more, in a turn of its own.
struct CatchUpTurn {
    std::uint64_t id;
};

/// To the home shard of a shared subscription: one of its members changes.
struct Membership {
    enum class Change : std::uint8_t { joins, leaves, goes_away, comes_back };
    Change change;
    std::string share;  ///< `$share/group/filter`
    SessionId member;
    SubscribeOptions options{};
    std::uint32_t identifier = 0;
};

/// To the home shard of a session: a message that is its turn to take for the group.
struct Handout {
    SessionId member;
    Delivery delivery;
    bool even_if_away;  ///< nobody else of the group is there
};

/// Back to the home shard of a shared subscription: someone else must take this message.
struct Return {
    Delivery delivery;
};

/// What the brokers of different shards tell one another, besides messages for all.
using Letter =
    std::variant<PresenceQuestion, PresencePage, CatchUpTurn, Membership, Handout, Return>;

}  // namespace pulsegate
