#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/packet.h"
#include "server/base/clock.h"
#include "server/events/event_kind.h"

namespace pulsegate {

/// The source of a client's user name: its CONNECT username, its client id, or the common name of
/// its certificate.
enum class UserFrom : std::uint8_t { username, client_id, certificate };

/// The broker's limits and features, under the names of the settings.
struct BrokerSettings {
    Millis idle_timeout = 30'000;
    bool strict_idle_timeout = false;
    std::uint32_t max_keepalive = 0;  ///< seconds; 0: 60, or more if idle_timeout is longer
    UserFrom user_from = UserFrom::username;
    std::string server_reference{};  ///< the server for clients that are asked to leave; "":
                                     ///< unknown
    Millis forget_after = 24 * 3600 * 1000;

    std::size_t max_packet_size = 256 * 1024;
    std::size_t max_client_id_length = 1024;
    std::size_t output_budget = 1024 * 1024;
    std::uint16_t receive_maximum = 256;
    std::uint16_t max_inflight = 256;
    std::uint16_t topic_alias_maximum = 16;
    QoS max_qos = QoS::exactly_once;

    Millis max_session_expiry = 7 * 24 * 3600 * Millis{1000};
    std::size_t persistent_session_quota = 500'000;
    std::size_t persistent_session_bytes = 1024 * 1024 * 1024;
    std::size_t queue_memory = 64 * 1024 * 1024;
    std::size_t max_queued_messages = 10'000;
    std::size_t max_queued_bytes = 4 * 1024 * 1024;

    bool retain_available = true;
    std::size_t max_retained_messages = 1'000'000;
    std::size_t max_retained_bytes = 256 * 1024 * 1024;
    std::size_t max_retained_messages_per_user = 100'000;
    std::size_t max_retained_bytes_per_user = 32 * 1024 * 1024;

    std::size_t max_delayed_messages = 10'000'000;
    std::size_t max_delayed_bytes = std::size_t{4} * 1024 * 1024 * 1024;
    std::size_t max_delayed_messages_per_user = 100'000;
    std::size_t max_delayed_bytes_per_user = 64 * 1024 * 1024;

    std::size_t max_connections_per_user = 100;  ///< 0: no limit
    bool inbox = true;
    std::string sender_property = "from";  ///< "": receivers do not get the sender
    bool sender_in_topic = false;
    Millis inbox_expiry = 7 * 24 * 3600 * Millis{1000};
    std::size_t max_inboxes = 100'000;
    std::size_t max_inboxes_per_user = 1000;
    std::size_t max_inbox_bytes_per_user = 32 * 1024 * 1024;
    bool rooms_are_closed = false;              ///< to all users except members
    bool presence_is_for_watchers = false;      ///< and for the user
    std::size_t max_room_members = 10'000'000;  ///< members of all rooms, and watchers of all users
    std::size_t max_subscriptions = 1000;
    std::size_t max_client_memory = 4 * 1024 * 1024;
    std::size_t max_user_memory = 32 * 1024 * 1024;
    bool wildcard_subscriptions = true;
    bool shared_subscriptions = true;
    std::size_t max_topic_length = 65'535;
    std::size_t max_topic_levels = 128;

    std::size_t history_bytes = 0;  ///< see History; Config has the default

    bool webhook_payload = false;
    EventKinds recorded_events = 0;  ///< the kinds that a reader wants; not a setting

    /// Recipients that get a message in one round of the event loop; not a setting.
    std::size_t recipients_a_turn = 4096;
    /// Maximum bytes that wait for the store on one shard; beyond it, its clients are not read.
    /// Derived from memory-budget; not a setting. Usually half a second of a disk that is as fast
    /// as a shard can receive.
    std::size_t most_unstored_bytes = 32 * 1024 * 1024;
    /// Maximum bytes of all wills; beyond it, only small wills are accepted. Derived from
    /// memory-budget; not a setting.
    std::size_t most_will_bytes = 128 * 1024 * 1024;
    /// How long a client is absent before its session is packed, see PackedSessions; not a
    /// setting.
    Millis packed_after = 60'000;
};

}  // namespace pulsegate
