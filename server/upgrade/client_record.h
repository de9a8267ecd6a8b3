#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/base/secrets/secret_bytes.h"
#include "server/upgrade/authorization_record.h"

namespace pulsegate {

// One live client as plain data, which the old process passes to the new one in an upgrade. Times
// are durations, or dates by the wall clock, because each process has its own monotonic clock.
// Values that are not stated are zero or empty.

/// A message with its body.
struct MessageRecord {
    std::string topic{};
    std::string payload{};
    std::string properties{};
    std::uint8_t qos = 0;
    bool retain = false;
    std::int64_t expires = 0;  ///< Unix time in ms; 0: never
    std::uint64_t stamp = 0;
    bool retained = false;
    std::uint64_t publisher = 0;
    std::uint64_t sender = 0;
    std::uint64_t presence_version = 0;

    bool operator==(const MessageRecord&) const = default;
};

/// A message to the client: in flight, or in its queue.
struct DeliveryRecord {
    std::uint16_t packet_id = 0;  ///< 0: it is in the queue
    std::uint8_t qos = 0;
    bool retain = false;
    bool is_from_inbox = false;  ///< from the inbox of its user
    bool is_released = false;    ///< PUBREL was sent, PUBCOMP is awaited
    bool waits = false;          ///< must be sent again, but was not yet
    bool perhaps_sent = false;   ///< perhaps sent before a crash; for a message in the queue
    std::uint32_t owner = 0;     ///< owner of its copy in the store; 0: none
    std::optional<std::uint32_t> age{};  ///< ms since it was sent, if known
    std::uint64_t stamp = 0;
    std::vector<std::uint32_t> identifiers{};
    std::string share{};                     ///< `$share/group/filter`; "": none
    std::optional<MessageRecord> message{};  ///< nothing: it is in the store, or was released

    bool operator==(const DeliveryRecord&) const = default;
};

struct SubscriptionRecord {
    std::string filter{};
    std::uint8_t options = 0;  ///< as in SUBSCRIBE
    std::uint32_t identifier = 0;

    bool operator==(const SubscriptionRecord&) const = default;
};

struct WillRecord {
    MessageRecord message{};
    std::optional<std::uint32_t> message_expiry{};
    std::uint32_t delay = 0;
    AuthorizationRecord authorization{};

    bool operator==(const WillRecord&) const = default;
};

struct AliasRecord {
    std::uint16_t alias = 0;
    std::string topic{};

    bool operator==(const AliasRecord&) const = default;
};

/// Retained messages, or presence, that must still be sent to the client.
struct ReplayRecord {
    struct Request {
        std::string filter{};
        std::uint8_t options = 0;
        std::uint32_t identifier = 0;
        std::uint64_t since = 0;  ///< a version of presence
        bool is_owed = false;

        bool operator==(const Request&) const = default;
    };

    std::vector<Request> requests{};
    bool retained_done = false;
    std::string after{};
    std::uint32_t shard = 0;
    std::uint32_t shards = 0;  ///< number of shards
    std::uint64_t position = 0;

    bool operator==(const ReplayRecord&) const = default;
};

struct SessionRecord {
    std::string user{};
    std::string client{};
    std::int64_t since = 0;  ///< Unix time of its login, in ms
    bool is_stored = false;  ///< its subscriptions and queue are in the store
    std::uint32_t expiry = 0;
    std::uint8_t version = 0;  ///< of MQTT
    std::uint32_t max_packet_size = 0;
    std::uint16_t receive_maximum = 0;
    bool wants_reasons = false;
    bool takes_reasons = false;
    std::uint16_t last_packet_id = 0;
    std::uint8_t ack_time = 0;
    std::uint64_t password_line = 0;  ///< fingerprint of the line; 0: none
    std::optional<AuthorizationRecord> authorization{};
    std::optional<WillRecord> will{};
    bool has_aliases = false;
    std::uint16_t most_aliases = 0;  ///< topic aliases that the client accepts
    std::vector<AliasRecord> aliases_in{};
    std::vector<AliasRecord> aliases_out{};
    std::vector<SubscriptionRecord> subscriptions{};
    std::vector<DeliveryRecord> in_flight{};  ///< in the order of sending
    std::vector<DeliveryRecord> queue{};
    std::vector<std::uint16_t> unreleased{};  ///< QoS 2 packet ids from the client
    std::vector<std::uint16_t> released{};    ///< the latest released ones, the oldest first
    std::optional<ReplayRecord> replay{};
    bool was_member = false;  ///< the client was a member of a shared subscription

    bool operator==(const SessionRecord&) const = default;
};

struct WebSocketRecord {
    std::uint64_t left = 0;  ///< bytes left of the present frame's payload
    std::uint32_t mask = 0;
    std::uint8_t empty_frames = 0;
    bool is_inside_message = false;
    std::string rest{};  ///< the beginning of a header or of a control frame

    bool operator==(const WebSocketRecord&) const = default;
};

/// The state of TLS 1.3 after its handshake.
struct TlsRecord {
    std::uint8_t suite = 0;
    std::uint16_t most_content = 0;
    std::uint8_t message_size = 0;  ///< bytes of an incomplete KeyUpdate
    std::uint8_t without_data = 0;
    std::uint8_t warnings = 0;
    bool answers_update = false;
    std::string unopened{};    ///< records, or the beginning of one
    std::uint32_t sealed = 0;  ///< bytes of output that are sealed already
    std::uint64_t client_number = 0;
    std::uint64_t server_number = 0;
    SecretBytes client_secret{};
    SecretBytes server_secret{};

    bool operator==(const TlsRecord&) const = default;
};

struct ConnectionRecord {
    std::string listener{};  ///< its URL
    std::string peer{};      ///< the client's address
    std::uint16_t peer_port = 0;
    bool is_proxied = false;
    std::uint8_t version = 0;  ///< of MQTT
    std::int64_t silence = 0;  ///< ms since its last packet
    std::uint32_t limit = 0;   ///< limit of silence
    std::uint32_t largest_packet = 0;
    std::int64_t owed = 0;  ///< ns that the client's packets so far still take at its rate
    bool is_parked = false;
    bool is_slowed = false;
    bool notify_drained = false;
    std::string unfinished{};  ///< MQTT that was read but not handled
    std::string unsent{};
    std::optional<WebSocketRecord> websocket{};
    std::optional<TlsRecord> tls{};

    bool operator==(const ConnectionRecord&) const = default;
};

struct ClientRecord {
    SessionRecord session{};
    ConnectionRecord connection{};

    bool operator==(const ClientRecord&) const = default;
};

}  // namespace pulsegate
