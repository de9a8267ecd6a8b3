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

/// The number of an owner: a session, the inbox of a user, or a room, each with a queue that
/// survives the process. A number is used only once, until all numbers have been; see
/// `OwnerNumbers`.
using OwnerId = std::uint32_t;

/// The number of a message. Later messages have larger numbers, also after a restart.
using Stamp = std::uint64_t;

enum class OwnerKind : std::uint8_t { session, inbox, retired, room };

/// A receiver of a message, and the data that the owner's subscriptions add to it.
struct Receiver {
    OwnerId owner = 0;
    QoS qos = QoS::at_least_once;
    bool retain = false;
    std::vector<std::uint32_t> identifiers{};  ///< subscription identifiers (MQTT 5.0, 3.3.2.3.8)
    /// `$share/group/filter`, if the message comes by that subscription and may go to other
    /// members.
    std::shared_ptr<const std::string> share{};

    bool operator==(const Receiver& other) const {
        const bool is_same_share =
            share == other.share || (share && other.share && *share == *other.share);
        return is_same_share && owner == other.owner && qos == other.qos &&
               retain == other.retain && identifiers == other.identifiers;
    }
};

// The operations. They keep the topic, properties and payload of a `MessageRef`; `flags` has
// further data for the caller. Operations on an owner that is not stored have no effect.

/// Stores a message for receivers; they wait for it until `Done`. A message that is stored already
/// gets more receivers.
struct PutMessage {
    Stamp stamp = 0;
    WallMillis expires = 0;  ///< 0: never
    std::uint32_t flags = 0;
    std::uint32_t sender = 0;  ///< the user who published it
    MessageRef message{};
    std::vector<Receiver> receivers{};
};

/// The message gets one more receiver, who waits for it until `Done`. The message is already
/// stored, or will be before anybody is told about it.
struct PutReceiver {
    Stamp stamp = 0;
    Receiver receiver{};
};

/// The owner no longer waits for its messages up to `upto`, or for the messages in `beyond`. A
/// message is deleted when nobody waits for it.
struct Done {
    OwnerId owner = 0;
    Stamp upto = 0;
    std::vector<Stamp> beyond{};
};

/// A new owner, or changed terms of a stored one. If there is another owner with the same name, it
/// ends.
struct PutOwner {
    OwnerId owner = 0;
    OwnerKind kind = OwnerKind::session;
    std::string user{};
    std::string client{};      ///< for a room: the shard and the number of shards; for a retired
                               ///< owner: its number; for an inbox: nothing
    std::uint32_t expiry = 0;  ///< seconds
    std::uint8_t protocol = 0;

    bool operator==(const PutOwner&) const = default;
};

/// Deletes the owner and all its data.
struct EndOwner {
    OwnerId owner = 0;
};
/// The same, but its messages of shared subscriptions wait until `EndOwner`, because they are on
/// their way to another member when its session ends. The owner loses its name.
struct RetireOwner {
    OwnerId owner = 0;
};

struct PutSubscription {
    OwnerId owner = 0;
    std::string filter{};
    std::uint8_t options = 0;  ///< as in SUBSCRIBE
    std::uint32_t identifier = 0;
    bool owed = false;  ///< for a new subscription: see MarkRetainedOwed. A stored subscription
                        ///< keeps its value
};
/// Must the owner still be sent the retained messages of its subscription?
struct MarkRetainedOwed {
    OwnerId owner = 0;
    std::string filter{};
    bool owed = false;
};
struct DropSubscription {
    OwnerId owner = 0;
    std::string filter{};
};

/// The owner's client is absent. The owner ends at `ends` unless the client comes back.
struct PutSessionExpiry {
    OwnerId owner = 0;
    WallMillis ends = 0;  ///< 0: its time begins with the next start
    Stamp position = 0;   ///< the owner has not received later messages in its user's rooms
};
struct DropSessionExpiry {
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

/// A message in flight to the client has this packet identifier. Identifier 0 means that every QoS
/// 1 message up to `stamp` may have been sent, with an unknown identifier.
struct PutExchange {
    OwnerId owner = 0;
    std::uint16_t packet_id = 0;
    Stamp stamp = 0;
    QoS qos = QoS::exactly_once;
};
/// The client has received the message at QoS 2, and PUBREL may be sent.
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
    std::optional<std::uint32_t> message_expiry = {};  ///< seconds from its publication
    std::uint32_t flags = 0;
    MessageRef message{};
};
struct DropWill {
    OwnerId owner = 0;
};

/// Sets the retained message of its topic, unless there was a put or a drop with a later stamp.
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

/// The origin of a delayed message, as far as it is known. For messages of earlier versions, it is
/// not known.
struct DelayedOrigin {
    bool is_backend = false;  ///< by HTTP
    /// The time of issue of its client's token, in seconds since 1970; 0: the login was not by a
    /// token.
    std::uint32_t token_issued = 0;
    std::uint32_t client = 0;  ///< 23 bits of a fingerprint of its client id; 0: it is not known

    bool operator==(const DelayedOrigin&) const = default;
};
/// A message that is published later. It replaces a message of the same user with the same name.
struct PutDelayed {
    std::uint64_t id = 0;  ///< `delayed_id`
    std::uint32_t flags = 0;
    std::optional<std::uint32_t> message_expiry = {};  ///< seconds from its publication
    std::string user{};
    std::optional<std::string> name{};
    MessageRef message{};
    DelayedOrigin origin{};
    bool is_promised = false;  ///< it must be submitted again if it is refused; not stored
    bool is_taken = false;     ///< it is being published, and is taken only after a restart; not
                               ///< stored
    DelayedClaimRef claim{};   ///< until it is committed; not stored
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
    std::uint64_t id = 0;               ///< 0: `name` selects it
    std::optional<std::string> user{};  ///< nothing: any user
    std::string name{};
    bool is_promised = false;  ///< as above
    bool found = false;        ///< the answer, when the unit is committed
};
/// Deletes a delayed message that was taken, because it is published.
struct DropDelayed {
    std::uint64_t id = 0;
};

/// The number of a delayed message. It sorts by time, up to the year 2106. `number` has 31 bits,
/// and distinguishes messages of one second.
constexpr std::uint64_t delayed_id(std::int64_t due_seconds, std::uint32_t number) {
    return static_cast<std::uint64_t>(due_seconds) << 31 | number;
}
/// When it is due, in seconds since 1970.
constexpr std::int64_t due_seconds(std::uint64_t delayed_id) {
    return static_cast<std::int64_t>(delayed_id >> 31);
}

/// A user's presence.
struct PutUser {
    /// A value of `limit`: a row that exists keeps its limit.
    static constexpr std::uint32_t limit_as_stored = ~std::uint32_t{0};

    std::string name{};
    std::uint64_t version = 0;
    WallMillis since = 0;
    WallMillis last_seen = 0;
    std::uint8_t cause = 0;  ///< a `Cause`
    /// While the user is online: the longest limit of silence of the connected devices; 0: it is
    /// not known.
    std::uint32_t limit = 0;  ///< ms

    bool operator==(const PutUser&) const = default;
};
struct DropUser {
    std::string name{};
};

/// Bans a client, all clients of a user, or all clients at an address. It replaces an earlier ban
/// of the same target.
struct PutBan {
    std::string user{};
    std::string client{};   ///< "": all clients of the user
    std::string address{};  ///< instead of a user
    WallMillis ends = 0;    ///< 0: never
    std::string reason{};
};
struct DropBan {
    std::string user{};
    std::string client{};
    std::string address{};
};
/// Deletes the bans that have ended by this time.
struct DropEndedBans {
    WallMillis by = 0;
};

/// Tokens of the user that were issued before this time are not valid. This time never moves back.
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

/// A member of rooms has no device, and has not received messages after `position`; 0: the member
/// has a device.
struct PutRoomPosition {
    std::string user{};
    Stamp position = 0;
};
struct DropRoomPosition {
    std::string user{};
};

/// Appends an event to the log. The ledger numbers it, and deletes the oldest events when there are
/// too many.
struct PutEvent {
    std::uint8_t kind = 0;     ///< an `EventKind`
    std::string body{};        ///< the event as a JSON object
    bool is_promised = false;  ///< it must be submitted again if it is refused; not stored
};
/// The webhook has received all events up to this one.
struct EventDelivered {
    EventNumber upto = 0;
};
/// Keeps an event that the webhook refuses, until it is dropped or there are too many.
struct PutDeadLetter {
    DeadLetter letter{};
    bool is_known = false;  ///< it was refused again; an event that was dropped meanwhile is not
                            ///< kept again
};
struct DropDeadLetters {
    std::optional<EventNumber> number{};  ///< nothing: all
    std::size_t found = 0;                ///< the answer, when the unit is committed
};
/// These events are sent to the webhook again.
struct ReplayDeadLetters {
    std::optional<EventNumber> number{};  ///< as above
    std::size_t found = 0;
};

using Operation =
    std::variant<PutMessage, PutReceiver, Done, PutOwner, EndOwner, RetireOwner, PutSubscription,
                 MarkRetainedOwed, DropSubscription, PutSessionExpiry, DropSessionExpiry,
                 PutIncoming, DropIncoming, PutExchange, ReleaseExchange, DropExchange, PutWill,
                 DropWill, PutRetained, DropRetained, PutDelayed, CancelDelayed, DropDelayed,
                 PutUser, DropUser, PutBan, DropBan, DropEndedBans, PutRevocation, PutMember,
                 DropMember, PutRoomPosition, DropRoomPosition, PutEvent, EventDelivered,
                 PutDeadLetter, DropDeadLetters, ReplayDeadLetters>;

enum class Outcome : std::uint8_t {
    committed,   ///< everything is on disk, as far as the ledger's `Fsync` promises
    incomplete,  ///< the same, except operations that the database rejects; the log names them
    refused,     ///< nothing is promised: the disk did not accept it in time, or the ledger has
                 ///< ended
};

/// Called once, on the ledger's thread, with the unit's operations, which it may take. It must
/// neither wait nor throw.
using Completion = std::function<void(Outcome, std::vector<Operation>& operations)>;

/// Operations that are applied together or not at all, in order. If the database rejects an
/// operation although the disk works, the operation must not block everything after it: in a unit
/// of a source it is left out, and a unit without a source is refused.
///
/// In a cluster, a unit may change the rows of several partitions, because one node owns all of
/// them: one call of Redis shows the tokens of all these partitions. If partitions had different
/// owners, a unit could only have operations of one of them.
struct Unit {
    std::vector<Operation> operations{};
    Completion completion{};  ///< may be empty

    // When a unit is refused, later units are refused too until the source knows of it. Otherwise
    // they would be applied before the refused unit, which is submitted again. After that, units
    // have the next generation.
    std::uint32_t source = 0;  ///< 0: the unit has no source
    std::uint32_t generation = 0;
};

}  // namespace pulsegate
