#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/bytes.h"
#include "protocol/packet_type.h"

namespace pulsegate {

/// Property identifiers of MQTT 5.0 (table 2-4).
enum class Property : std::uint8_t {
    payload_format_indicator = 0x01,
    message_expiry_interval = 0x02,
    content_type = 0x03,
    response_topic = 0x08,
    correlation_data = 0x09,
    subscription_identifier = 0x0B,
    session_expiry_interval = 0x11,
    assigned_client_identifier = 0x12,
    server_keep_alive = 0x13,
    authentication_method = 0x15,
    authentication_data = 0x16,
    request_problem_information = 0x17,
    will_delay_interval = 0x18,
    request_response_information = 0x19,
    response_information = 0x1A,
    server_reference = 0x1C,
    reason_string = 0x1F,
    receive_maximum = 0x21,
    topic_alias_maximum = 0x22,
    topic_alias = 0x23,
    maximum_qos = 0x24,
    retain_available = 0x25,
    user_property = 0x26,
    maximum_packet_size = 0x27,
    wildcard_subscription_available = 0x28,
    subscription_identifier_available = 0x29,
    shared_subscription_available = 0x2A,
};

/// The standard's name of a property, in lower case ("receive maximum").
std::string_view name(Property id);

/// One property as it is in a packet. `number` holds every integer type, `text` strings and binary
/// data; a user property has its name in `key`.
struct PropertyValue {
    Property id;
    std::uint32_t number = 0;
    std::string_view key{};
    std::string_view text{};
};

/// The properties of a decoded packet: a view of their bytes, already checked by the decoder. A
/// packet has few of them, so a lookup scans the bytes.
class Properties {
public:
    Properties() = default;
    /// `raw` is the list without its length prefix.
    explicit Properties(Bytes raw) : raw_(raw) {}

    std::optional<std::uint32_t> number(Property id) const;
    std::optional<std::string_view> text(Property id) const;

    /// Calls `visit(const PropertyValue&)` for each property, in the order of the packet.
    template <class Visitor>
    void for_each(Visitor visit) const {
        PropertyValue value;
        for (Bytes rest = raw_; take(rest, value);) visit(value);
    }

    bool empty() const { return raw_.empty(); }
    Bytes raw() const { return raw_; }

    friend bool operator==(const Properties& a, const Properties& b) {
        return as_text(a.raw_) == as_text(b.raw_);
    }

private:
    static bool take(Bytes& rest, PropertyValue& out);

    Bytes raw_;
};

class Reader;

/// Reads a property list with its length prefix and checks all rules: which properties `packet` (or
/// `packets::will_type`) may have, from which side, how often and with which values.
Properties read_properties(Reader& from, PacketType packet, Sender sender);

/// Builds a property list to send. To use it as a view: `packet.properties = list.view()`.
class PropertyList {
public:
    PropertyList& add(Property id, std::uint32_t number);
    PropertyList& add(Property id, std::string_view text);
    PropertyList& add_user(std::string_view key, std::string_view value);
    PropertyList& add(const PropertyValue& value);
    /// A list that is already encoded, without its length.
    PropertyList& append(std::string_view encoded);

    Properties view() const { return Properties(as_bytes(raw_)); }
    std::string take() && { return std::move(raw_); }
    bool empty() const { return raw_.empty(); }

private:
    std::string raw_;
};

}  // namespace pulsegate
