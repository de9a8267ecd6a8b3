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

/// The number of an answer that waits, see Receipts; 0: none.
using ReceiptId = std::uint64_t;

/// Asks a shard for the next presence messages that `filter` selects there. It answers with a
/// PresencePage. Pages keep subscribers to all presence within their output budget.
struct PresenceQuery {
    unsigned reply_to;
    std::uint64_t id;
    PresencePosition after;  ///< only users that changed after this
    struct Named {
        std::string user;
        PresencePosition after;
    };
    std::vector<Named> users;  ///< of the shard; empty: all of its users
};

struct PresencePage {
    std::uint64_t id;                      ///< of the query
    std::optional<PresencePosition> next;  ///< `after` of the next page; nothing: this was the last
    /// Of named users: one for each, in their order, null where there is nothing to tell; or fewer,
    /// and the others are to be asked for again.
    std::vector<MessageRef> messages;
};

/// A message whose publisher is answered when it is safe: this shard answers with a ReceiptPart.
struct TrackedMessage {
    MessageRef message;
    unsigned publisher;  ///< its shard
    ReceiptId receipt;   ///< there
    bool collects;       ///< receivers are named in the answer, and stored by the publisher's shard
};

/// To the shard of a publisher: a part of the receipt is settled.
struct ReceiptPart {
    ReceiptId receipt;
    bool refused;
    unsigned from;
    std::vector<Receiver> receivers{};  ///< the message is to be stored for them
    Reach reach{};                      ///< of the message on that shard
};

/// To the shards that have named receivers of a message: it is stored for all of them.
struct MessageStored {
    Stamp stamp;
};

/// To the home shard of a shared subscription: a member joins, leaves, disconnects or reconnects.
struct GroupMembership {
    enum class Change : std::uint8_t {
        joins,
        leaves,
        goes_away,
        gives_back,  ///< goes away, and leaves what it has to others, if any are connected
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
    ReceiptId receipt = 0;      ///< there: a part is settled when this has arrived; 0: nobody waits
};

/// To the home shard of a session: a message to the group that this member is to receive.
struct GroupDelivery {
    SessionId member;
    Delivery delivery;
    bool even_if_disconnected;  ///< no member of the group is connected
};

/// To the home shard of a session that is away: others of the group are connected, and are to get
/// what it has of the group.
struct GroupRecall {
    SessionId member;
    std::string share;
};

/// Back to the home shard of a shared subscription: another member must receive this message.
struct GroupReturn {
    Delivery delivery;
    SessionId from = 0;  ///< was to receive it; 0: a session that has ended, or before a restart
};

/// What the brokers of different shards send to each other, besides published messages.
using ShardMessage =
    std::variant<PresenceQuery, PresencePage, TrackedMessage, ReceiptPart, MessageStored,
                 GroupMembership, GroupDelivery, GroupRecall, GroupReturn>;

}  // namespace pulsegate
