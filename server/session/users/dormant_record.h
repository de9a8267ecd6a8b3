#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/routing/interest.h"
#include "server/session/terms/absence.h"
#include "server/session/terms/ack_time.h"
#include "server/session/terms/queued_head.h"
#include "server/session/users/presence.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// A message in the queue of a record; its body is not in memory.
struct DormantMessage {
    QueuedHead head;
    Millis expires;  ///< 0: never
};

/// A user with one disconnected session as the only device, packed into one allocation. Data of
/// variable size follows the record.
struct DormantRecord final : PresenceEntry, Absence {
    static constexpr std::size_t most_messages = 16;
    static constexpr std::size_t longest_name = std::numeric_limits<std::uint8_t>::max();

    struct Texts {
        std::string_view user;
        std::string_view client;
        std::string_view filter;  ///< empty: it has no subscription
    };
    /// The names must not be longer than `longest_name`, nor the messages more than
    /// `most_messages`.
    static DormantRecord* make(const Texts& texts, std::span<const DormantMessage> messages,
                               Tick ends);
    static void destroy(DormantRecord* record);

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
    DormantRecord(const Texts& texts, std::size_t messages, std::size_t expiries, Tick ends);
    ~DormantRecord() = default;

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

static_assert(sizeof(DormantRecord) <= 104);  // with names, filter and a message, it is below 168

}  // namespace pulsegate
