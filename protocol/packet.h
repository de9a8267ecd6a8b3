#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/bytes.h"
#include "protocol/packet_type.h"
#include "protocol/properties.h"
#include "protocol/reason.h"

namespace pulsegate {

/// The packets of MQTT 3.1.1 and 5.0 as values. Texts and payloads are views into the bytes that
/// they were decoded from. `properties` is empty in 3.1.1.

/// The value is the protocol level on the wire. 3.1 is a dialect of 3.1.1: comments about 3.1.1
/// hold for it too, unless they say otherwise.
enum class Version : std::uint8_t { v3_1 = 3, v3_1_1 = 4, v5_0 = 5 };

enum class QoS : std::uint8_t { at_most_once = 0, at_least_once = 1, exactly_once = 2 };

struct Will {
    std::string_view topic{};
    std::string_view payload{};
    QoS qos = QoS::at_most_once;
    bool retain = false;
    Properties properties{};

    bool operator==(const Will&) const = default;
};

struct Connect {
    Version version = Version::v3_1_1;
    bool clean_start = true;
    std::uint16_t keepalive = 0;  ///< seconds; 0: the client states none
    std::string_view client_id{};
    std::optional<Will> will{};
    std::optional<std::string_view> username{};
    std::optional<std::string_view> password{};
    Properties properties{};

    bool operator==(const Connect&) const = default;
};

struct Connack {
    bool session_present = false;
    Reason reason = Reason::success;  ///< in 3.1.1 encoded by connect_return_code
    Properties properties{};

    bool operator==(const Connack&) const = default;
};

struct Publish {
    bool dup = false;
    QoS qos = QoS::at_most_once;
    bool retain = false;
    std::string_view topic{};
    std::uint16_t packet_id = 0;  ///< absent at QoS 0
    Properties properties{};
    std::string_view payload{};

    bool operator==(const Publish&) const = default;
};

/// The common fields of PUBACK, PUBREC, PUBREL and PUBCOMP.
template <PacketType Type>
struct Acknowledgement {
    static constexpr PacketType type = Type;
    std::uint16_t packet_id = 0;
    Reason reason = Reason::success;
    Properties properties{};

    bool operator==(const Acknowledgement&) const = default;
};
using Puback = Acknowledgement<PacketType::puback>;
using Pubrec = Acknowledgement<PacketType::pubrec>;
using Pubrel = Acknowledgement<PacketType::pubrel>;
using Pubcomp = Acknowledgement<PacketType::pubcomp>;

/// Subscription options (MQTT 5.0, section 3.8.3.1); 3.1.1 has only `qos`.
struct SubscribeOptions {
    QoS qos = QoS::at_most_once;
    bool no_local = false;
    bool retain_as_published = false;
    std::uint8_t retain_handling = 0;  ///< 0 send, 1 send if new, 2 do not send

    bool operator==(const SubscribeOptions&) const = default;
};

struct SubscribeFilter {
    std::string_view filter{};
    SubscribeOptions options{};

    bool operator==(const SubscribeFilter&) const = default;
};

/// The decoder guarantees at least one filter, and that each is a valid topic filter (section 4.7).
/// In 3.1.1, a filter that begins with `$share/` need not be a valid shared subscription of 5.0.
struct Subscribe {
    std::uint16_t packet_id = 0;
    std::vector<SubscribeFilter> filters{};
    Properties properties{};

    bool operator==(const Subscribe&) const = default;
};

struct Suback {
    std::uint16_t packet_id = 0;
    std::vector<Reason> reasons{};  ///< 3.1.1 knows 0, 1, 2 and 0x80: the encoder folds errors
    Properties properties{};

    bool operator==(const Suback&) const = default;
};

struct Unsubscribe {
    std::uint16_t packet_id = 0;
    std::vector<std::string_view> filters{};
    Properties properties{};

    bool operator==(const Unsubscribe&) const = default;
};

struct Unsuback {
    std::uint16_t packet_id = 0;
    std::vector<Reason> reasons{};  ///< 5.0 only
    Properties properties{};

    bool operator==(const Unsuback&) const = default;
};

struct Pingreq {
    bool operator==(const Pingreq&) const = default;
};
struct Pingresp {
    bool operator==(const Pingresp&) const = default;
};

struct Disconnect {
    Reason reason = Reason::success;  ///< 5.0 only
    Properties properties{};

    bool operator==(const Disconnect&) const = default;
};

struct Auth {
    Reason reason = Reason::success;
    Properties properties{};

    bool operator==(const Auth&) const = default;
};

using Packet = std::variant<Connect, Connack, Publish, Puback, Pubrec, Pubrel, Pubcomp, Subscribe,
                            Suback, Unsubscribe, Unsuback, Pingreq, Pingresp, Disconnect, Auth>;

}  // namespace pulsegate
