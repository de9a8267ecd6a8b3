#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/packet.h"
#include "server/message/message.h"
#include "server/routing/interest.h"
#include "server/session/terms/reach.h"
#include "server/session/terms/session_id.h"
#include "server/session/users/presence.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The number of a waiting answer, see Receipts; 0: none.
using ReceiptId = std::uint64_t;

/// Asks a shard for its next presence messages that match `filter`. It answers with a PresencePage.
/// Pages keep subscribers of all presence within their output budget.
struct PresenceQuery {
    unsigned reply_to;
    std::uint64_t id;
    PresencePosition after;  ///< only users that changed after this
    struct Named {
        std::string user;
        PresencePosition after;
    };
    std::vector<Named> users;  ///< users of the shard; empty: all of its users
};

struct PresencePage {
    std::uint64_t id;                      ///< of the query
    std::optional<PresencePosition> next;  ///< `after` of the next page; nothing: this was the last
    /// For named users: one message per user, in their order, or null if there is nothing to tell.
    /// If there are fewer, ask for the other users again.
    std::vector<MessageRef> messages;
};

/// A message whose publisher is answered when it is safe: this shard answers with a SettledPart.
struct TrackedMessage {
    MessageRef message;
    unsigned publisher;  ///< the publisher's shard
    ReceiptId receipt;   ///< the receipt on that shard
    bool collects;       ///< the answer names the receivers, and the publisher's shard stores them
};

/// To the shard of a publisher: a part of the receipt is settled.
struct SettledPart {
    ReceiptId receipt;
    bool refused;
    unsigned from;
    std::vector<Receiver> receivers{};  ///< the message must be stored for these
    Reach reach{};                      ///< of the message on that shard
};

/// To the shards that have named receivers of a message: the message is stored for all of them.
struct MessageStored {
    Stamp stamp;
};

/// To the home shard of a shared subscription: a member joins, leaves, disconnects or reconnects.
struct GroupMembership {
    enum class Change : std::uint8_t {
        joins,
        leaves,
        goes_away,
        gives_back,  ///< goes away, and leaves its messages to other members if one of them is
                     ///< connected
        comes_back
    };
    Change change;
    std::string share;  ///< `$share/group/filter`
    SessionId member;
    SubscribeOptions options{};
    std::uint32_t identifier = 0;
    Interest::Table table = 0;  ///< of its filter, in the Interest of that shard
    OwnerId owner = 0;          ///< of the member, in the store
    unsigned reply_to = 0;      ///< the member's shard
    ReceiptId receipt = 0;      ///< receipt on that shard: a part is settled when this has arrived;
                                ///< 0: nobody waits
};

/// To the home shard of a session: a message to the group, for this member.
struct GroupDelivery {
    SessionId member;
    Delivery delivery;
    bool even_if_disconnected;  ///< no member of the group is connected
};

/// To the home shard of a disconnected session: other members of the group are connected, and must
/// get the session's messages from the group.
struct GroupRecall {
    SessionId member;
    std::string share;
};

/// Back to the home shard of a shared subscription: another member must receive this message.
struct GroupReturn {
    Delivery delivery;
    SessionId from = 0;  ///< the session that should have received it; 0: an ended session, or one
                         ///< from before a restart
};

/// The messages between brokers of different shards, besides published messages.
using ShardMessage =
    std::variant<PresenceQuery, PresencePage, TrackedMessage, SettledPart, MessageStored,
                 GroupMembership, GroupDelivery, GroupRecall, GroupReturn>;

}  // namespace pulsegate
