#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "server/base/clock.h"

namespace pulsegate {

/// True if the Message Expiry Interval that ends at `expires` (0: never) has ended.
constexpr bool has_expired(Millis expires, Millis now) { return expires != 0 && now > expires; }

class RetainedSeat;
void intrusive_ptr_add_ref(RetainedSeat* seat);
void intrusive_ptr_release(RetainedSeat* seat);
using RetainedSeatRef = boost::intrusive_ptr<RetainedSeat>;

/// A published message. Once shared it never changes, so the shards of all its receivers may hold
/// it.
struct Message {
    std::string topic;
    std::string payload;
    std::string properties;  ///< the forwarded ones except the expiry, encoded (5.0, 3.3.2.3)
    QoS qos = QoS::at_most_once;
    bool retain = false;
    Millis expires = 0;           ///< when its Message Expiry Interval ends; 0: never
    std::uint64_t stamp = 0;      ///< its number; later messages have larger ones; 0: not needed
    bool retained = false;        ///< every shard keeps it; the later stamp wins
    std::uint64_t publisher = 0;  ///< fingerprint of a retained message's client
    /// Fingerprint of the user who published it. 0: the gateway published it, or nobody is charged
    /// for it, because it has QoS 0 and is not retained.
    std::uint64_t sender = 0;
    std::uint64_t presence_version = 0;  ///< of the user's presence; 0: not a presence message
    Millis received = 0;     ///< when its PUBLISH was read; 0: not from a client, or it had to wait
    bool promised = false;   ///< promised before it was published: even a full store takes it
    bool not_kept = false;   ///< there is no room: its topic then has no retained message
    RetainedSeatRef seat{};  ///< a retained message's place in the gateway's quota

    bool expired(Millis now) const { return has_expired(expires, now); }

    /// Approximate bytes in memory.
    std::size_t cost() const {
        constexpr std::size_t bookkeeping = 256;
        return bookkeeping + topic.size() + payload.size() + properties.size();
    }
};

using MessageRef = std::shared_ptr<const Message>;

/// Makes a message that counts in `bytes_of_messages` until its last reference has gone.
MessageRef share(Message&& message);

/// The bytes of all shared messages of the process. A message in many queues counts once. From any
/// thread.
std::size_t bytes_of_messages();

/// One copy of a message for one receiver, with the additions of the receiver's subscriptions.
struct Delivery {
    MessageRef message;
    QoS qos = QoS::at_most_once;
    bool retain = false;
    bool from_inbox = false;                     ///< of the receiver's user, see Inboxes
    std::uint32_t owner = 0;                     ///< the owner of its copy in the store, or 0
    std::uint32_t inbox = 0;                     ///< the owner of a second copy, or 0: sent from
                                                 ///< the inbox at QoS 2, it may go back
    std::vector<std::uint32_t> identifiers{};    ///< of the subscriptions (MQTT 5.0, 3.3.2.3.8)
    std::shared_ptr<const std::string> share{};  ///< its `$share/group/filter`, or null

    std::size_t cost() const {
        return message->cost() + identifiers.size() * sizeof identifiers[0] +
               (share ? share->size() : 0);  // in the store each copy has its own
    }
};

/// Makes a message with the forwarded properties of its PUBLISH or will. Its Message Expiry
/// Interval, if any, begins `now`.
Message make_message(std::string_view topic, std::string_view payload, const Properties& properties,
                     QoS qos, bool retain, Millis now);

/// Returns a stamp larger than all earlier ones, even from before a restart: its upper bits are the
/// wall clock, unless that was set back. From any thread.
std::uint64_t next_stamp();

inline constexpr int stamp_clock_shift = 20;  ///< a million stamps a millisecond

/// The smallest stamp of a time.
constexpr std::uint64_t stamp_at(WallMillis time) {
    return static_cast<std::uint64_t>(time) << stamp_clock_shift;
}

/// A stamp's time in milliseconds.
constexpr std::uint64_t time_of(std::uint64_t stamp) { return stamp >> stamp_clock_shift; }

/// Makes all further stamps larger than this one.
void set_stamp_floor(std::uint64_t floor);

}  // namespace pulsegate
