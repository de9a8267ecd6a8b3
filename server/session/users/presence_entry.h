#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/routing/interest.h"
#include "server/session/terms/absence.h"
#include "server/session/terms/ack_time.h"
#include "server/session/terms/cause.h"
#include "server/session/terms/queued_head.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// A client of a user: connected, or disconnected with a session. It unlinks itself from the user's
/// list when it is destroyed.
class Device : public boost::intrusive::list_base_hook<
                   boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    Device(std::string client, WallMillis since) : client(std::move(client)), since(since) {}
    virtual ~Device() = default;

    /// Is it the inbox that waits for the user's first device (see Inboxes)? Clients have an id.
    bool is_inbox() const { return client.empty(); }

    /// When the last complete packet of a connected client was received.
    virtual Millis last_packet() const = 0;
    /// The silence, in ms, after which a connected client has timed out.
    virtual Millis limit() const = 0;

    const std::string client;
    WallMillis since;   ///< when its present connection logged in
    bool here = false;  ///< connected
};

/// A position in the order of the users' last changes: the position of a user, or one between two
/// users.
struct PresencePosition {
    std::uint64_t version = 0;
    /// A hash of the name, because many users may change in one millisecond.
    std::uint64_t user = 0;

    bool operator<(const PresencePosition& other) const {
        return version < other.version || (version == other.version && user < other.user);
    }
};

/// The presence data of a user. A user with a packed session (a PackedRecord) has nothing else in
/// memory.
struct PresenceEntry : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
    explicit PresenceEntry(bool is_packed) : is_packed(is_packed) {}
    PresenceEntry(const PresenceEntry&) = delete;
    PresenceEntry& operator=(const PresenceEntry&) = delete;

    std::string_view user_name() const;
    PresencePosition position() const;
    /// In the order of their last changes.
    bool operator<(const PresenceEntry& other) const;

    /// Time of the last packet, while offline.
    WallMillis last_seen() const;
    /// Sets the time at which the present state began. If the last packet is more than twelve days
    /// before or after it, the time of the packet is rounded up to seconds.
    void set_since(WallMillis now, WallMillis seen);
    /// Copies the presence data of the other entry.
    void copy_presence(const PresenceEntry& other);

    std::uint64_t version = 0;
    WallMillis since = 0;             ///< when the present state began
    std::int32_t seen_after = 0;      ///< from `since` to the last packet, while offline; packed
    std::uint32_t sessions : 24 = 0;  ///< of connected and disconnected devices
    Cause cause : 4 = Cause::login;
    /// The user was online when the process died, and counts as online while its devices may still
    /// come back.
    bool is_awaited : 1 = false;
    bool is_unannounced : 1 = false;  ///< subscribers must not know about the user yet
    bool stayed : 1 = false;          ///< was online for at least a minute before
    const bool is_packed : 1;
};

/// One user, who is online while any device is online, or while awaited.
struct User : PresenceEntry {
    using Devices = boost::intrusive::list<Device, boost::intrusive::constant_time_size<false>>;

    explicit User(std::string_view name) : PresenceEntry(false), name(name) {}
    bool online() const { return here > 0 || is_awaited; }
    /// The longest limit of silence of its connected devices. It examines at most a thousand
    /// devices.
    Millis longest_limit() const;
    /// Does the user have a device, connected or with a session? The inbox does not count.
    bool has_device() const;
    /// Did a device ever log in? If not, the user only has an inbox for the first one.
    bool is_known() const { return since != 0; }

    const std::string name;
    Devices devices;         ///< logins that wait for the store, and connected devices, come first
    std::uint32_t here = 0;  ///< connected devices
    std::uint32_t kept = 0;  ///< bytes that its clients make the gateway keep, see MemoryLimits
};

static_assert(sizeof(User) <= 104);  // the next smaller allocator size than 112

/// A message in the queue of a record; its body is not in memory.
struct PackedMessage {
    QueuedHead head;
    Millis expires;  ///< 0: never
};

/// A user with one disconnected session as the only device, packed into one allocation. Data of
/// variable size follows the record.
struct PackedRecord final : PresenceEntry, Absence {
    static constexpr std::size_t most_messages = 16;
    static constexpr std::size_t longest_name = std::numeric_limits<std::uint8_t>::max();

    struct Texts {
        std::string_view user;
        std::string_view client;
        std::string_view filter;  ///< empty: it has no subscription
    };
    /// The names must not be longer than `longest_name`, nor the messages more than
    /// `most_messages`.
    static PackedRecord* make(const Texts& texts, std::span<const PackedMessage> messages,
                              Tick ends);
    static void destroy(PackedRecord* record);

    std::string_view user() const { return {text(), user_size_}; }
    std::string_view client() const { return {text() + user_size_, client_size_}; }
    std::string_view filter() const { return {text() + user_size_ + client_size_, filter_size_}; }
    /// The queue. All its messages are stored, and no body is in memory.
    std::span<const QueuedHead> messages() const { return {queue(), messages_}; }
    /// When each message expires; empty if no message ever expires.
    std::span<const Millis> expiries() const { return {expiry_times(), expiries_}; }
    bool has_expired_messages(Millis now) const;
    std::size_t queued_bytes() const;
    /// Bytes of the queue in the record.
    std::size_t bytes_of_entries() const {
        return messages().size_bytes() + expiries().size_bytes();
    }

    WallMillis device_since = 0;
    OwnerId owner = 0;
    std::uint32_t expiry = 0;
    std::uint32_t identifier = 0;  ///< identifier of the subscription
    std::uint16_t last_packet_id = 0;
    std::uint8_t options = 0;  ///< identifier options of the subscription, see `option_bits`
    Interest::Table table = 0;
    AckTime ack_time;
    Version version = Version::v3_1_1;

private:
    PackedRecord(const Texts& texts, std::size_t messages, std::size_t expiries, Tick ends);
    ~PackedRecord() = default;

    const QueuedHead* queue() const { return reinterpret_cast<const QueuedHead*>(this + 1); }
    const Millis* expiry_times() const {
        return reinterpret_cast<const Millis*>(queue() + messages_);
    }
    const char* text() const { return reinterpret_cast<const char*>(expiry_times() + expiries_); }

    const std::uint8_t user_size_;
    const std::uint8_t client_size_;
    const std::uint16_t filter_size_;
    const std::uint8_t messages_;
    const std::uint8_t expiries_;
};

static_assert(sizeof(PackedRecord) <= 104);  // with names, filter and a message, it is below 168

}  // namespace pulsegate
