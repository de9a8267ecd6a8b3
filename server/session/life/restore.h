#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "server/session/delivery/delivery_parts.h"
#include "server/session/delivery/inboxes.h"
#include "server/session/delivery/packed_sessions.h"
#include "server/session/delivery/shared_subscriptions.h"
#include "server/session/durable/journal.h"
#include "server/session/durable/shard_context.h"
#include "server/session/requests/subscriptions.h"
#include "server/session/rooms/room_logs.h"
#include "server/session/sending/packet_sender.h"
#include "server/session/state/session_table.h"
#include "server/session/state/tables.h"
#include "server/session/terms/settings.h"
#include "server/session/users/presence.h"

namespace pulsegate {

/// The messages that may have been sent to a session's client at QoS 1 before the restart, although
/// the store has no packet identifier for them.
struct SentBefore {
    Stamp upto = 0;             ///< all messages up to this stamp
    bool was_connected = true;  ///< when the process died: all messages
    bool is_any = false;        ///< does any such message wait?

    bool includes(const Receiver& receiver, Stamp stamp) {
        const bool included =
            receiver.qos == QoS::at_least_once && (was_connected || stamp <= upto);
        is_any |= included;
        return included;
    }
};

/// A session for which the store has nothing else.
struct StoredSession {
    OwnerId owner = 0;
    std::uint32_t expiry = 0;
    std::uint8_t protocol = 0;
    PackedRecord::Texts texts{};
    std::uint8_t options = 0;  ///< of the subscription
    std::uint32_t identifier = 0;
    std::span<const PackedMessage> messages{};
    PutSessionExpiry session_expiry{};
    SentBefore sent_before{};
};

/// Restores one shard from the store, before the shard runs: each session before its content, and
/// `finish` at the end. It owns the data that is needed until then.
class Restore {
public:
    Restore(const ShardContext& context, const Tables& tables, const DeliveryParts& delivery,
            Subscriptions& subscriptions)
        : settings_(context.settings),
          sessions_(tables.sessions),
          packed_(delivery.packed),
          presence_(tables.presence),
          inboxes_(delivery.inboxes),
          rooms_(delivery.rooms),
          room_logs_(delivery.room_logs),
          retained_(tables.retained),
          subscriptions_(subscriptions),
          shared_(delivery.shared),
          packets_(delivery.packets),
          journal_(context.journal),
          surroundings_(context.host) {}

    void expect(const StoredCounts& counts);
    void begin_versions_at(std::uint64_t floor) { presence_.begin_versions_at(floor); }
    /// Call it after all sessions. A user that was online when the process died stays online, and
    /// is awaited: returns the end of the wait, or nothing if the user was offline.
    std::optional<Millis> user(const PutUser& stored, Millis now);
    void member(const PutMember& stored) { rooms_.restore(stored); }
    bool has_members(std::string_view room) const { return rooms_.members(room) != nullptr; }
    /// Call it after all members.
    void room_position(const PutRoomPosition& stored) { rooms_.restore(stored); }
    /// Is it a device of a user who has rooms? Call it after all members.
    bool is_of_member(const Session& session) const {
        return !session.is_inbox() && rooms_.has_rooms(session.user.name);
    }
    /// Stores that its user has a device.
    void has_device(const Session& session) { rooms_.device_came(session.user.name); }
    void room(const PutOwner& stored) { room_logs_.restore(stored); }
    void room_message(std::string_view topic, const WaitingMessage& stored,
                      const Receiver& receiver, Millis expires) {
        room_logs_.restore(topic, stored, receiver, expires);
    }
    /// Counts the message in the total of all shards.
    RetainedSeatRef seat_of(const Message& message) {
        return surroundings_.totals().retained->take_anyway(message);
    }
    void retained(const MessageRef& message, Millis now) { retained_.keep(message, now); }
    /// Restores the whole session as a record. Returns false if it can't be one. Call it after all
    /// members.
    bool packed(const StoredSession& stored, Millis now);
    /// Restores it without its session expiry.
    Session& unpacked(const StoredSession& stored);
    Session* owner(const PutOwner& stored);
    /// The session ended with the process, and its messages are dropped.
    void end(OwnerId owner) { journal_.add(EndOwner{owner}); }
    /// The same, but other members get its messages of shared subscriptions, except messages that
    /// were `under_way` to its client at QoS 2. Call `message` for each of them afterwards. Also
    /// for an owner that was retired before.
    void retired(const PutOwner& stored, const std::set<Stamp>& under_way, Millis now);
    void subscription(Session& session, const PutSubscription& stored);
    void incoming(Session& session, PutIncoming stored);
    /// A message with a packet identifier.
    void exchange(Session& session, PutExchange stored, bool released);
    void will(Session& session, const PutWill& stored);
    /// Was the message in flight to the client with a known identifier, or is it from a shared
    /// subscription?
    bool is_under_way(Stamp stamp, const Receiver& receiver) const {
        return receiver.share || exchanges_.contains({receiver.owner, stamp});
    }
    /// A waiting message; call it in the order of age. Returns false if the message is in flight:
    /// then call `message`.
    bool waiting(Session& session, const WaitingMessage& stored, const Receiver& receiver,
                 Millis expires, SentBefore& sent_before);
    /// A message that waited has expired meanwhile.
    void expired(OwnerId owner, Stamp stamp) { packets_.expire(owner, stamp); }
    void message(Session& session, const MessageRef& message, const Receiver& receiver,
                 SentBefore& sent_before);
    /// A message of a retired owner. Call it after all subscriptions.
    void message(const MessageRef& message, const Receiver& receiver);
    /// No client is connected yet: the session's expiry continues, or begins if its end is not
    /// stored (0). Call it after all members.
    void session_expiry(Session& session, PutSessionExpiry stored, SentBefore sent_before,
                        Millis now);
    /// The same for a session of an awaited user: its expiry begins at `until`.
    void awaited(Session& session, PutSessionExpiry stored, SentBefore sent_before, Millis until);
    /// The expiry of an inbox. Call it after all other sessions and all messages.
    void inbox_expiry(Session& inbox, PutSessionExpiry stored, Millis now);

    void finish();

private:
    static Millis time_left(PutSessionExpiry& stored, std::uint32_t expiry);
    void note_sent_before(OwnerId owner, SentBefore sent_before);
    void note_position(const Session& session, PutSessionExpiry& expiry);
    Outbox& outbox_of(Session& session);

    const BrokerSettings& settings_;
    SessionTable& sessions_;
    PackedSessions& packed_;
    Presence& presence_;
    Inboxes& inboxes_;
    Rooms& rooms_;
    RoomLogs& room_logs_;
    Retained& retained_;
    Subscriptions& subscriptions_;
    SharedSubscriptions& shared_;
    PacketSender& packets_;
    Journal& journal_;
    Surroundings& surroundings_;
    /// How a message was in flight to its client.
    struct Sent {
        std::uint16_t packet_id = 0;
        QoS qos{};
    };
    boost::unordered_flat_map<std::pair<OwnerId, Stamp>, Sent> exchanges_;
};

}  // namespace pulsegate
