#include "protocol/properties.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <limits>

#include "protocol/packet_set.h"
#include "protocol/reader.h"
#include "protocol/topic.h"
#include "protocol/utf8.h"
#include "protocol/writer.h"

namespace pulsegate {

namespace {

/// The data types a property may have (MQTT 5.0, section 2.2.2.2).
enum class Wire : std::uint8_t { none, u8, u16, u32, varint, text, binary, pair };

struct Rule {
    Property id;
    std::string_view name;
    Wire wire = Wire::none;
    PacketSet from_client = 0;
    PacketSet from_server = 0;
    std::uint32_t lowest = 0;
    std::uint32_t highest = std::numeric_limits<std::uint32_t>::max();
    const char* misplaced = nullptr;
    const char* repeated = nullptr;
    const char* out_of_range = nullptr;
};

constexpr std::uint32_t any = std::numeric_limits<std::uint32_t>::max();

using namespace packets;

constexpr PacketSet messages = publish | will;
constexpr PacketSet answers = acknowledgements | connack | suback | unsuback | disconnect | auth;
constexpr PacketSet client_packets =
    connect | will | publish | acknowledgements | subscribe | unsubscribe | disconnect | auth;
constexpr PacketSet server_packets = answers | publish;

// A macro only because the causes are to be literals: the name stands in each of them.
#define RULE(id, words, wire, from_client, from_server, lowest, highest)            \
    Rule {                                                                          \
        Property::id, words, Wire::wire, from_client, from_server, lowest, highest, \
            words " is not allowed in this packet", words " is given twice",        \
            words " is out of range"                                                \
    }

// MQTT 5.0, table 2-4, and the section of each property for its direction and its range.
constexpr auto rules = [] {
    // clang-format off
    std::array all{
        RULE(payload_format_indicator, "payload format indicator", u8, messages, publish, 0, 1),
        RULE(message_expiry_interval, "message expiry interval", u32, messages, publish, 0, any),
        RULE(content_type, "content type", text, messages, publish, 0, any),
        RULE(response_topic, "response topic", text, messages, publish, 0, any),
        RULE(correlation_data, "correlation data", binary, messages, publish, 0, any),
        RULE(subscription_identifier, "subscription identifier", varint, subscribe, publish, 1, varint_limit),
        RULE(session_expiry_interval, "session expiry interval", u32, connect | disconnect, connack, 0, any),
        RULE(assigned_client_identifier, "assigned client identifier", text, nowhere, connack, 0, any),
        RULE(server_keep_alive, "server keep alive", u16, nowhere, connack, 0, any),
        RULE(authentication_method, "authentication method", text, connect | auth, connack | auth, 0, any),
        RULE(authentication_data, "authentication data", binary, connect | auth, connack | auth, 0, any),
        RULE(request_problem_information, "request problem information", u8, connect, nowhere, 0, 1),
        RULE(will_delay_interval, "will delay interval", u32, will, nowhere, 0, any),
        RULE(request_response_information, "request response information", u8, connect, nowhere, 0, 1),
        RULE(response_information, "response information", text, nowhere, connack, 0, any),
        RULE(server_reference, "server reference", text, nowhere, connack | disconnect, 0, any),
        RULE(reason_string, "reason string", text, acknowledgements | disconnect | auth, answers, 0, any),
        RULE(receive_maximum, "receive maximum", u16, connect, connack, 1, any),
        RULE(topic_alias_maximum, "topic alias maximum", u16, connect, connack, 0, any),
        RULE(topic_alias, "topic alias", u16, publish, publish, 1, any),
        RULE(maximum_qos, "maximum QoS", u8, nowhere, connack, 0, 1),
        RULE(retain_available, "retain available", u8, nowhere, connack, 0, 1),
        RULE(user_property, "user property", pair, client_packets, server_packets, 0, any),
        RULE(maximum_packet_size, "maximum packet size", u32, connect, connack, 1, any),
        RULE(wildcard_subscription_available, "wildcard subscription available", u8, nowhere, connack, 0, 1),
        RULE(subscription_identifier_available, "subscription identifier available", u8, nowhere, connack, 0, 1),
        RULE(shared_subscription_available, "shared subscription available", u8, nowhere, connack, 0, 1),
    };
    // clang-format on
    static_assert(all.size() == 27, "MQTT 5.0 has 27 properties");
    return all;
}();
#undef RULE

constexpr std::size_t past_last = static_cast<std::size_t>(rules.back().id) + 1;
static_assert(past_last <= 64, "the properties seen so far fit a 64-bit set");

constexpr auto by_id = [] {
    std::array<Rule, past_last> table{};
    for (const Rule& rule : rules) table[static_cast<std::size_t>(rule.id)] = rule;
    return table;
}();

// Nothing that is not in the table has a wire type. The identifier is a variable byte integer, but
// all that exist need one byte; a continued one is as unknown as any other.
const Rule& rule_for(std::uint8_t id) {
    static constexpr Rule unknown{};
    return id < by_id.size() ? by_id[id] : unknown;
}

const Rule& rule_for(Property id) { return rule_for(static_cast<std::uint8_t>(id)); }

constexpr bool is_number(Wire wire) { return wire >= Wire::u8 && wire <= Wire::varint; }
constexpr bool is_text(Wire wire) { return wire == Wire::text || wire == Wire::pair; }

void read_value(Reader& from, Wire wire, PropertyValue& out) {
    switch (wire) {
        case Wire::u8: out.number = from.u8(); break;
        case Wire::u16: out.number = from.u16(); break;
        case Wire::u32: out.number = from.u32(); break;
        case Wire::varint: out.number = from.varint(); break;
        case Wire::pair: out.key = from.binary(); [[fallthrough]];
        case Wire::text:
        case Wire::binary: out.text = from.binary(); break;
        case Wire::none: break;
    }
}

void put_number(Buffer& out, Wire wire, std::uint32_t number) {
    assert(is_number(wire));
    switch (wire) {
        case Wire::u8: return put_u8(out, number);
        case Wire::u16: return put_u16(out, number);
        case Wire::u32: return put_u32(out, number);
        default: return put_varint(out, number);
    }
}

// The user property may repeat, and each subscription that a message matches may add its own
// identifier (sections 2.2.2.2, 3.3.2.3.8).
bool may_repeat(Property id, Sender sender) {
    return id == Property::user_property ||
           (id == Property::subscription_identifier && sender == Sender::server);
}

constexpr std::uint64_t bit(Property id) {
    return std::uint64_t{1} << static_cast<std::uint8_t>(id);
}

/// Checks one list, property by property.
class Check {
public:
    Check(Reader& in, PacketType packet, Sender sender)
        : in_(in), packet_(packet), sender_(sender) {}

    void all() {
        while (in_.more()) one();
        if (seen(Property::authentication_data) && !seen(Property::authentication_method))
            in_.protocol_error("authentication data without an authentication method");
    }

private:
    void one() {
        const Rule& rule = rule_for(in_.u8());
        if (rule.wire == Wire::none) return in_.malformed("unknown property");
        if (!may_stand_here(rule)) return;
        if (seen(rule.id) && !may_repeat(rule.id, sender_))
            return in_.protocol_error(rule.repeated);
        seen_ |= bit(rule.id);

        PropertyValue value{rule.id};
        read_value(in_, rule.wire, value);
        if (!in_.failed()) check_value(rule, value);
    }

    // Section 2.2.2.2: an identifier that the packet type doesn't know is malformed; one that it
    // knows from the other side only is parsed and then not allowed.
    bool may_stand_here(const Rule& rule) {
        const bool client = sender_ == Sender::client;
        if (contains(client ? rule.from_client : rule.from_server, packet_)) return true;
        if (contains(client ? rule.from_server : rule.from_client, packet_)) {
            in_.protocol_error(rule.misplaced);
        } else {
            in_.malformed(rule.misplaced);
        }
        return false;
    }

    void check_value(const Rule& rule, const PropertyValue& value) {
        if (is_number(rule.wire)) {
            if (value.number < rule.lowest || value.number > rule.highest)
                in_.fail({out_of_range(rule.id), rule.out_of_range});
        } else if (is_text(rule.wire)) {
            if (!valid_utf8(value.key) || !valid_utf8(value.text))
                in_.malformed("a property's text is not valid UTF-8");
            if (rule.id == Property::response_topic && !valid_topic_name(value.text))
                in_.protocol_error("response topic is empty or has a wildcard");
            if (rule.id == Property::response_topic && has_control_character(value.text))
                in_.malformed("response topic has a control character");
        }
    }

    static Reason out_of_range(Property id) {
        return id == Property::topic_alias ? Reason::topic_alias_invalid : Reason::protocol_error;
    }

    bool seen(Property id) const { return (seen_ & bit(id)) != 0; }

    Reader& in_;
    PacketType packet_;
    Sender sender_;
    std::uint64_t seen_ = 0;
};

constexpr ReadCauses list_causes{
    .too_short = "a property ends after its list",
    .too_long = "",  // a list is read to its end
    .not_utf8 = "a property's text is not valid UTF-8",
    .bad_varint = "a property's variable byte integer is malformed",
};

}  // namespace

std::string_view name(Property id) {
    const Rule& rule = rule_for(id);
    return rule.wire == Wire::none ? "unknown property" : rule.name;
}

Properties read_properties(Reader& from, PacketType packet, Sender sender) {
    const Bytes raw = from.take(from.varint());
    if (raw.empty()) return {};
    Reader list(raw, list_causes);
    Check(list, packet, sender).all();
    if (list.failed()) {
        from.fail(list.error());
        return {};
    }
    return Properties(raw);
}

bool Properties::take(Bytes& rest, PropertyValue& out) {
    if (rest.empty()) return false;
    Reader from(rest);
    const Rule& rule = rule_for(from.u8());
    if (rule.wire == Wire::none) return false;
    out = {rule.id};
    read_value(from, rule.wire, out);
    rest = from.rest();
    return !from.failed();
}

std::optional<std::uint32_t> Properties::number(Property id) const {
    assert(is_number(rule_for(id).wire));
    PropertyValue value;
    for (Bytes rest = raw_; take(rest, value);)
        if (value.id == id) return value.number;
    return std::nullopt;
}

std::optional<std::string_view> Properties::text(Property id) const {
    assert(!is_number(rule_for(id).wire));
    PropertyValue value;
    for (Bytes rest = raw_; take(rest, value);)
        if (value.id == id) return value.text;
    return std::nullopt;
}

PropertyList& PropertyList::add(Property id, std::uint32_t number) {
    put_u8(raw_, static_cast<unsigned>(id));
    put_number(raw_, rule_for(id).wire, number);
    return *this;
}

PropertyList& PropertyList::add(Property id, std::string_view text) {
    assert(rule_for(id).wire == Wire::text || rule_for(id).wire == Wire::binary);
    put_u8(raw_, static_cast<unsigned>(id));
    put_text(raw_, text);
    return *this;
}

PropertyList& PropertyList::add_user(std::string_view key, std::string_view value) {
    raw_.reserve(raw_.size() + 1 + 2 + key.size() + 2 + value.size());
    put_u8(raw_, static_cast<unsigned>(Property::user_property));
    put_text(raw_, key);
    put_text(raw_, value);
    return *this;
}

PropertyList& PropertyList::append(std::string_view encoded) {
    raw_ += encoded;
    return *this;
}

PropertyList& PropertyList::add(const PropertyValue& value) {
    if (value.id == Property::user_property) return add_user(value.key, value.text);
    if (is_number(rule_for(value.id).wire)) return add(value.id, value.number);
    return add(value.id, value.text);
}

}  // namespace pulsegate
