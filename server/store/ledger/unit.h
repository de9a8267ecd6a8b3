#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/message/message.h"
#include "server/store/ledger/delayed_sums.h"
#include "server/store/ledger/event_log.h"

namespace pulsegate {

/// Whatever has a queue that outlives the process: a session, the inbox of a user, a room. A number
/// is given once; see `Ledger::Start` for the next one.
using OwnerId = std::uint32_t;

/// The number of a message. Later messages have larger ones, also after a restart.
using Stamp = std::uint64_t;

enum class OwnerKind : std::uint8_t { session, inbox, retired, room };

/// One who is to get a message, and what the subscriptions of this owner add to it.
struct Receiver {
    OwnerId owner = 0;
    QoS qos = QoS::at_least_once;
    bool retain = false;
    std::vector<std::uint32_t> identifiers{};  ///< of the subscriptions (MQTT 5.0, 3.3.2.3.8)
    /// `$share/group/filter`, if it comes by that subscription and may go to other members.
    std::shared_ptr<const std::string> share{};

    bool operator==(const Receiver& other) const {
        const bool is_same_share =
            share == other.share || (share && other.share && *share == *other.share);
        return is_same_share && owner == other.owner && qos == other.qos &&
               retain == other.retain && identifiers == other.identifiers;
    }
};

// The operations. Of a `MessageRef` they keep topic, properties and payload; `flags` is whatever
// else the caller wants to find again. What is said of an owner that is not stored has no effect.

/// Stores a message for receivers; they wait for it until `Done`. A message that is stored already
/// gets more receivers.
struct PutMessage {
    Stamp stamp = 0;
    WallMillis expires = 0;  ///< 0: never
    std::uint32_t flags = 0;
    std::uint32_t sender = 0;  ///< who has published it
    MessageRef message{};
    std::vector<Receiver> receivers{};
};

/// The message gets one more receiver, who waits for it until `Done`. It is stored already, or is
/// by the time that anybody is told of it.
struct PutReceiver {
    Stamp stamp = 0;
    Receiver receiver{};
};

/// The owner waits no longer for its messages up to `upto`, nor for those in `beyond`. A message
/// that nobody waits for is deleted.
struct Done {
    OwnerId owner = 0;
    Stamp upto = 0;
    std::vector<Stamp> beyond{};
};

/// A new owner, or other terms of a stored one. Another owner of the same name should have ended;
/// if not, it ends.
struct PutOwner {
    OwnerId owner = 0;
    OwnerKind kind = OwnerKind::session;
    std::string user{};
    std::string client{};      ///< or of a room the shard, and how many there are; of a retired
                               ///< owner its number; of an inbox nothing
    std::uint32_t expiry = 0;  ///< seconds
    std::uint8_t protocol = 0;

    bool operator==(const PutOwner&) const = default;
};

/// Deletes the owner and all that is stored of it.
struct EndOwner {
    OwnerId owner = 0;
};
/// The same, but messages go on waiting for it until `EndOwner`: those of a shared subscription,
/// which are on their way to another member when its session ends. It loses its name.
struct RetireOwner {
    OwnerId owner = 0;
};

struct PutSubscription {
    OwnerId owner = 0;
    std::string filter{};
    std::uint8_t options = 0;  ///< as in SUBSCRIBE
    std::uint32_t identifier = 0;
    bool owed = false;  ///< of a new one: see OweRetained. A stored one keeps what it has
};
/// Has the owner still to be sent the retained messages that its subscription selects?
struct OweRetained {
    OwnerId owner = 0;
    std::string filter{};
    bool owed = false;
};
struct DropSubscription {
    OwnerId owner = 0;
    std::string filter{};
};

/// The owner's client is away, and the owner ends then unless it comes back.
struct PutAbsence {
    OwnerId owner = 0;
    WallMillis ends = 0;  ///< 0: its time begins with the next start
    Stamp place = 0;      ///< what is later than that in the rooms of its user, it has not got
};
struct DropAbsence {
    OwnerId owner = 0;
};

/// A QoS 2 message from the client was received, and not released yet.
struct PutIncoming {
    OwnerId owner = 0;
    std::uint16_t packet_id = 0;
};
struct DropIncoming {
    OwnerId owner = 0;
    std::uint16_t packet_id = 0;
};

/// A message has this packet identifier on its way to the client. No message has identifier 0: it
/// says that any of QoS 1 up to `stamp` may have been sent, with an identifier that is not known.
struct PutExchange {
    OwnerId owner = 0;
    std::uint16_t packet_id = 0;
    Stamp stamp = 0;
    QoS qos = QoS::exactly_once;
};
/// The client has received it, at QoS 2, and PUBREL may be sent.
struct ReleaseExchange {
    OwnerId owner = 0;
    std::uint16_t packet_id = 0;
};
struct DropExchange {
    OwnerId owner = 0;
    std::uint16_t packet_id = 0;
};

struct PutWill {
    OwnerId owner = 0;
    std::uint32_t delay = 0;                           ///< seconds
    std::optional<std::uint32_t> message_expiry = {};  ///< seconds, from its publication on
    std::uint32_t flags = 0;
    MessageRef message{};
};
struct DropWill {
    OwnerId owner = 0;
};

/// The retained message of its topic, unless there was a put or a drop with a later stamp.
struct PutRetained {
    Stamp stamp = 0;
    WallMillis expires = 0;  ///< 0: never
    std::uint32_t flags = 0;
    std::uint64_t publisher = 0;  ///< the client
    std::uint64_t sender = 0;     ///< the user
    MessageRef message{};
};
struct DropRetained {
    Stamp stamp = 0;
    std::string topic{};
};

/// Who has published a delayed message, as far as it is known: of those of earlier versions,
/// nothing is.
struct DelayedOrigin {
    bool is_backend = false;  ///< by HTTP
    /// Of the token that its client came by, in seconds since 1970; 0: it came by something else.
    std::uint32_t token_issued = 0;
    std::uint32_t client = 0;  ///< 23 bits of a fingerprint of its client id; 0: it is not known

    bool operator==(const DelayedOrigin&) const = default;
};
/// A message that is published later. It replaces one of the same user with the same name.
struct PutDelayed {
    std::uint64_t id = 0;  ///< `delayed_id`
    std::uint32_t flags = 0;
    std::optional<std::uint32_t> message_expiry = {};  ///< seconds, from its publication on
    std::string user{};
    std::optional<std::string> name{};
    MessageRef message{};
    DelayedOrigin origin{};
    bool is_promised = false;  ///< to be submitted again if it is refused; not stored
    bool is_taken = false;    ///< it is being published, and taken after a restart only; not stored
    DelayedClaimRef claim{};  ///< until it is committed; not stored
};
/// The room that a delayed message takes.
inline std::size_t bytes_of(const PutDelayed& put) {
    constexpr std::size_t bookkeeping = 64;
    const Message& message = *put.message;
    return bookkeeping + put.user.size() + put.name.value_or("").size() + message.topic.size() +
           message.properties.size() + message.payload.size();
}
/// Deletes a delayed message, unless it was taken to be published.
struct CancelDelayed {
    std::uint64_t id = 0;               ///< 0: it is named
    std::optional<std::string> user{};  ///< nothing: anybody's
    std::string name{};
    bool is_promised = false;  ///< as above
    bool found = false;        ///< the answer, when the unit is committed
};
/// Deletes a delayed message that was taken: it is published.
struct DropDelayed {
    std::uint64_t id = 0;
};

/// The number of a delayed message. It sorts by time, up to the year 2106; `number`, of 31 bits,
/// tells those of one second apart.
constexpr std::uint64_t delayed_id(std::int64_t due_seconds, std::uint32_t number) {
    return static_cast<std::uint64_t>(due_seconds) << 31 | number;
}
/// When it is due, in seconds since 1970.
constexpr std::int64_t due_seconds(std::uint64_t delayed_id) {
    return static_cast<std::int64_t>(delayed_id >> 31);
}

/// A user's presence.
struct PutUser {
    std::string name{};
    std::uint64_t version = 0;
    WallMillis since = 0;
    WallMillis last_seen = 0;
    std::uint8_t cause = 0;  ///< a `Cause`
    /// While online: the longest limit of silence of its connected devices; 0: it is not known.
    std::uint32_t limit = 0;  ///< ms

    bool operator==(const PutUser&) const = default;
};
struct DropUser {
    std::string name{};
};

/// A client, all clients of a user or all at an address are kept out. It replaces a ban of the
/// same.
struct PutBan {
    std::string user{};
    std::string client{};   ///< "": all of the user's
    std::string address{};  ///< in place of a user
    WallMillis ends = 0;    ///< 0: never
    std::string reason{};
};
struct DropBan {
    std::string user{};
    std::string client{};
    std::string address{};
};
/// Deletes the bans that have ended by then.
struct DropEndedBans {
    WallMillis by = 0;
};

/// Tokens of the user that were issued before then are not valid. That moment never moves back.
struct PutRevocation {
    std::string user{};
    std::int64_t before = 0;  ///< seconds since 1970
};

/// The user is a member of the room with this topic.
struct PutMember {
    std::string topic{};
    std::string user{};
    Stamp since = 0;
};
struct DropMember {
    std::string topic{};
    std::string user{};
};

/// A member of rooms has no device, and has not got what is later than `place`; 0: it has one.
struct PutAway {
    std::string user{};
    Stamp place = 0;
};
struct DropAway {
    std::string user{};
};

/// Appends an event to the log. The ledger gives it its number, and deletes the oldest events when
/// there are too many.
struct PutEvent {
    std::uint8_t kind = 0;     ///< an `EventKind`
    std::string body{};        ///< what is told, a JSON object
    bool is_promised = false;  ///< to be submitted again if it is refused; not stored
};
/// The webhook has all events up to this one.
struct EventDelivered {
    EventNumber upto = 0;
};
/// Keeps an event that the webhook does not take, until it is dropped or there are too many.
struct PutDeadLetter {
    DeadLetter letter{};
    bool is_known = false;  ///< it was refused again; one that was dropped meanwhile stays away
};
struct DropDeadLetters {
    std::optional<EventNumber> number{};  ///< nothing: all
    std::size_t found = 0;                ///< the answer, when the unit is committed
};
/// The webhook is to be tried with them again.
struct ReplayDeadLetters {
    std::optional<EventNumber> number{};  ///< as above
    std::size_t found = 0;
};

using Operation =
    std::variant<PutMessage, PutReceiver, Done, PutOwner, EndOwner, RetireOwner, PutSubscription,
                 OweRetained, DropSubscription, PutAbsence, DropAbsence, PutIncoming, DropIncoming,
                 PutExchange, ReleaseExchange, DropExchange, PutWill, DropWill, PutRetained,
                 DropRetained, PutDelayed, CancelDelayed, DropDelayed, PutUser, DropUser, PutBan,
                 DropBan, DropEndedBans, PutRevocation, PutMember, DropMember, PutAway, DropAway,
                 PutEvent, EventDelivered, PutDeadLetter, DropDeadLetters, ReplayDeadLetters>;

enum class Outcome : std::uint8_t {
    committed,   ///< all of it is on disk, as far as the ledger's `Fsync` promises
    incomplete,  ///< the same but for what the database will never take, which the log names
    refused,     ///< nothing is promised: the disk did not take it in time, or the ledger has ended
};

/// Called once, on the ledger's thread, with the unit's operations, which it may take. It must
/// neither wait nor throw.
using Completion = std::function<void(Outcome, std::vector<Operation>& operations)>;

/// Operations that are applied together or not at all, in their order. One that the database will
/// never take, whatever the disk does, must not stand in the way of all that follows: of a source
/// it is left out, and a unit that stands alone is refused.
struct Unit {
    std::vector<Operation> operations{};
    Completion completion{};  ///< may be empty

    // When a unit is refused, so are those that its source submits before it knows: else they would
    // be applied before it, if it is submitted again. Then they are of the next generation.
    std::uint32_t source = 0;  ///< 0: the unit stands alone
    std::uint32_t generation = 0;
};

}  // namespace pulsegate
