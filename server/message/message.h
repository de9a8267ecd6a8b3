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

/// Has the Message Expiry Interval ended that ends at `expires` (0: never)?
constexpr bool has_expired(Millis expires, Millis now) { return expires != 0 && now > expires; }

class RetainedSeat;
void intrusive_ptr_add_ref(RetainedSeat* seat);
void intrusive_ptr_release(RetainedSeat* seat);
using RetainedSeatRef = boost::intrusive_ptr<RetainedSeat>;

/// A published message. It never changes once it is shared, so the shards of all its receivers may
/// hold it.
struct Message {
    std::string topic;
    std::string payload;
    std::string properties;  ///< those that are forwarded, but the expiry, encoded (5.0, 3.3.2.3)
    QoS qos = QoS::at_most_once;
    bool retain = false;
    Millis expires = 0;           ///< when its Message Expiry Interval ends; 0: never
    std::uint64_t stamp = 0;      ///< its number; later messages have larger ones; 0: it needs none
    bool retained = false;        ///< every shard keeps it; of two, the one with the later stamp
    std::uint64_t publisher = 0;  ///< of a retained message: the client's fingerprint
    /// Fingerprint of the user who published it; 0: the gateway has, or it is of QoS 0 and not
    /// retained, so that it is kept nowhere at anybody's expense.
    std::uint64_t sender = 0;
    std::uint64_t presence_version = 0;  ///< of the user's presence; 0: not a presence message
    Millis received = 0;     ///< when its PUBLISH was read; 0: it is no client's, or it had to wait
    bool promised = false;   ///< before it was published: a full store takes it nevertheless
    bool not_kept = false;   ///< it finds no room: its topic has no retained message from now on
    RetainedSeatRef seat{};  ///< of a retained message: its place among all of the gateway

    bool expired(Millis now) const { return has_expired(expires, now); }

    /// Approximate bytes in memory.
    std::size_t cost() const {
        constexpr std::size_t bookkeeping = 256;
        return bookkeeping + topic.size() + payload.size() + properties.size();
    }
};

using MessageRef = std::shared_ptr<const Message>;

/// A message that is counted in `bytes_of_messages` until the last reference to it has gone.
MessageRef share(Message&& message);

/// The bytes of all shared messages of the process, each counted once, however many queues it is
/// in. From any thread.
std::size_t bytes_of_messages();

/// One copy of a message for one receiver, with what the receiver's subscriptions add to it.
struct Delivery {
    MessageRef message;
    QoS qos = QoS::at_most_once;
    bool retain = false;
    bool from_inbox = false;                     ///< of the user, see Inboxes
    std::uint32_t owner = 0;                     ///< that has it in the store, or 0
    std::vector<std::uint32_t> identifiers{};    ///< of the subscriptions (MQTT 5.0, 3.3.2.3.8)
    std::shared_ptr<const std::string> share{};  ///< its `$share/group/filter`, or null

    std::size_t cost() const {
        return message->cost() + identifiers.size() * sizeof identifiers[0] +
               (share ? share->size() : 0);  // in the store each has its own
    }
};

/// A message with the forwarded properties of its PUBLISH or will. Its Message Expiry Interval, if
/// it has one, begins `now`.
Message make_message(std::string_view topic, std::string_view payload, const Properties& properties,
                     QoS qos, bool retain, Millis now);

/// Larger than all earlier stamps, those before a restart included: in its upper bits is the wall
/// clock, unless that was put back. From any thread.
std::uint64_t next_stamp();

inline constexpr int stamp_clock_shift = 20;  ///< a million stamps a millisecond

/// The least stamp of a time.
constexpr std::uint64_t stamp_at(WallMillis time) {
    return static_cast<std::uint64_t>(time) << stamp_clock_shift;
}

/// The milliseconds of a stamp's time.
constexpr std::uint64_t time_of(std::uint64_t stamp) { return stamp >> stamp_clock_shift; }

/// Stamps are larger than this one from now on.
void set_stamp_floor(std::uint64_t floor);

}  // namespace pulsegate
