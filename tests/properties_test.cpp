#include "protocol/properties.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "protocol/decode.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// A place for properties, `??` in its notation.
struct Place {
    std::string_view name;
    Sender sender;
    const char* notation;
};

constexpr Place places[] = {
    {"CONNECT", Sender::client, "10 r s'MQTT' 05 02 k10 [ ?? ] s'p'"},
    {"Will", Sender::client, "10 r s'MQTT' 05 06 k10 [ ] s'p' [ ?? ] s'w' s'x'"},
    {"CONNACK", Sender::server, "20 r 00 00 [ ?? ]"},
    {"PUBLISH by client", Sender::client, "32 r s'a' k1 [ ?? ] 'x'"},
    {"PUBLISH by server", Sender::server, "32 r s'a' k1 [ ?? ] 'x'"},
    {"PUBACK", Sender::client, "40 r k1 00 [ ?? ]"},
    {"PUBREC", Sender::client, "50 r k1 00 [ ?? ]"},
    {"PUBREL", Sender::client, "62 r k1 00 [ ?? ]"},
    {"PUBCOMP", Sender::client, "70 r k1 00 [ ?? ]"},
    {"PUBACK", Sender::server, "40 r k1 00 [ ?? ]"},
    {"PUBREC", Sender::server, "50 r k1 00 [ ?? ]"},
    {"PUBREL", Sender::server, "62 r k1 00 [ ?? ]"},
    {"PUBCOMP", Sender::server, "70 r k1 00 [ ?? ]"},
    {"SUBSCRIBE", Sender::client, "82 r k1 [ ?? ] s'a' 00"},
    {"SUBACK", Sender::server, "90 r k1 [ ?? ] 00"},
    {"UNSUBSCRIBE", Sender::client, "a2 r k1 [ ?? ] s'a'"},
    {"UNSUBACK", Sender::server, "b0 r k1 [ ?? ] 00"},
    {"DISCONNECT by client", Sender::client, "e0 r 00 [ ?? ]"},
    {"DISCONNECT by server", Sender::server, "e0 r 00 [ ?? ]"},
    {"AUTH", Sender::client, "f0 r 18 [ 15 s'm' ?? ]"},
    {"AUTH", Sender::server, "f0 r 18 [ 15 s'm' ?? ]"},
};

const std::set<std::string_view> messages{"Will", "PUBLISH by client", "PUBLISH by server"};
const std::set<std::string_view> connect_and_connack{"CONNECT", "CONNACK"};
const std::set<std::string_view> connack{"CONNACK"};
const std::set<std::string_view> connect{"CONNECT"};

/// A property as its own section describes it: where it may stand, values it may have, and values
/// that it may not.
struct Row {
    Property id;
    std::set<std::string_view> allowed;
    std::vector<std::string> good;
    std::vector<std::string> bad = {};
};

std::vector<Row> table() {
    std::set<std::string_view> everywhere;
    for (const Place& place : places) everywhere.insert(place.name);
    std::set<std::string_view> answers = everywhere;
    for (const auto* request :
         {"CONNECT", "Will", "PUBLISH by client", "PUBLISH by server", "SUBSCRIBE", "UNSUBSCRIBE"})
        answers.erase(request);

    const std::vector<std::string> any_u16{"k0", "k1", "k65535"};
    const std::vector<std::string> any_u32{"w0", "w1", "w4294967295"};
    const std::vector<std::string> flag{"00", "01"};
    const std::vector<std::string> no_flag{"02", "ff"};
    const std::vector<std::string> text{"s''", "s'text'", "s3 e38182"};
    const std::vector<std::string> no_text{"s1 00", "s1 ff", "s3 eda080"};
    using enum Property;
    return {
        {payload_format_indicator, messages, flag, no_flag},
        {message_expiry_interval, messages, any_u32},
        {content_type, messages, text, no_text},
        {response_topic, messages, {"s'a'", "s'a/b'"}, {"s''", "s'a/+'", "s'#'", "s1 ff"}},
        {correlation_data, messages, {"s''", "s2 00ff"}},
        {subscription_identifier,
         {"SUBSCRIBE", "PUBLISH by server"},
         {"r1", "r128", "r268435455"},
         {"r0", "8000", "ffffffff7f"}},
        {session_expiry_interval, {"CONNECT", "CONNACK", "DISCONNECT by client"}, any_u32},
        {assigned_client_identifier, connack, text, no_text},
        {server_keep_alive, connack, any_u16},
        {authentication_method, connect_and_connack, text, no_text},
        {authentication_data, {"AUTH"}, {"s''", "s2 00ff"}},  // elsewhere it needs a method
        {request_problem_information, connect, flag, no_flag},
        {will_delay_interval, {"Will"}, any_u32},
        {request_response_information, connect, flag, no_flag},
        {response_information, connack, text, no_text},
        {server_reference, {"CONNACK", "DISCONNECT by server"}, text, no_text},
        {reason_string, answers, text, no_text},
        {receive_maximum, connect_and_connack, {"k1", "k65535"}, {"k0"}},
        {topic_alias_maximum, connect_and_connack, any_u16},
        {topic_alias, {"PUBLISH by client", "PUBLISH by server"}, {"k1", "k65535"}, {"k0"}},
        {maximum_qos, connack, flag, no_flag},
        {retain_available, connack, flag, no_flag},
        {user_property, everywhere, {"s'' s''", "s'k' s'v'"}, {"s1 ff s''", "s'' s1 00"}},
        {maximum_packet_size, connect_and_connack, {"w1", "w4294967295"}, {"w0"}},
        {wildcard_subscription_available, connack, flag, no_flag},
        {subscription_identifier_available, connack, flag, no_flag},
        {shared_subscription_available, connack, flag, no_flag},
    };
}

Decoded decoded(const Place& place, const std::string& properties) {
    std::string notation = place.notation;
    notation.replace(notation.find("??"), 2, properties);
    CAPTURE(notation);
    static std::string bytes;
    bytes = wire(notation);
    return decode(as_bytes(bytes), Version::v5_0, place.sender);
}

bool taken(const Place& place, const std::string& properties) {
    return std::holds_alternative<Packet>(decoded(place, properties));
}

Reason refusal(const Place& place, const std::string& properties) {
    const Decoded result = decoded(place, properties);
    const auto* error = std::get_if<DecodeError>(&result);
    return error ? error->reason : Reason::success;
}

std::string property(Property id, const std::string& value) {
    const char byte[] = {static_cast<char>(id), 0};
    return hex({byte, 1}) + " " + value;
}

bool may_repeat(const Row& row, const Place& place) {
    return row.id == Property::user_property ||
           (row.id == Property::subscription_identifier && place.name == "PUBLISH by server");
}

}  // namespace

TEST_CASE("a property is taken where its section allows it, and nowhere else") {
    for (const Row& row : table()) {
        for (const Place& place : places) {
            const bool allowed = row.allowed.contains(place.name);
            CAPTURE(name(row.id));
            CAPTURE(place.name);
            for (const std::string& value : row.good)
                CHECK(taken(place, property(row.id, value)) == allowed);
        }
    }
}

TEST_CASE("a property with a value that its section forbids is refused") {
    for (const Row& row : table()) {
        for (const Place& place : places) {
            CAPTURE(name(row.id));
            CAPTURE(place.name);
            for (const std::string& value : row.bad)
                CHECK_FALSE(taken(place, property(row.id, value)));
        }
    }
}

TEST_CASE("a property given twice is a protocol error, if it is not one that may repeat") {
    for (const Row& row : table()) {
        for (const Place& place : places) {
            if (!row.allowed.contains(place.name)) continue;
            CAPTURE(name(row.id));
            CAPTURE(place.name);
            const std::string once = property(row.id, row.good[0]);
            const Reason expected =
                may_repeat(row, place) ? Reason::success : Reason::protocol_error;
            CHECK(refusal(place, once + " " + once) == expected);
            CHECK(refusal(place, once + " 26 s'k' s'v' " + once) == expected);
        }
    }
}

TEST_CASE("identifiers that no property has are malformed in every packet") {
    std::set<int> known;
    for (const Row& row : table()) known.insert(static_cast<int>(row.id));
    CHECK(known.size() == 27);
    for (int id = 0; id < 256; ++id) {
        if (known.contains(id)) continue;
        CAPTURE(id);
        for (const Place& place : places)
            CHECK(refusal(place, property(Property{static_cast<std::uint8_t>(id)}, "00*8")) ==
                  Reason::malformed_packet);
    }
}

TEST_CASE("authentication data is taken with its method, in either order") {
    for (const Place& place : places) {
        if (place.name != "CONNECT" && place.name != "CONNACK") continue;
        CHECK(taken(place, "15 s'm' 16 s'x'"));
        CHECK(taken(place, "16 s'x' 15 s'm'"));
        CHECK(refusal(place, "16 s'x'") == Reason::protocol_error);
    }
}

TEST_CASE("a property is looked up by its identifier") {
    const std::string raw = wire("21 k20 15 s'SCRAM' 26 s'a' s'b' 26 s'c' s'd' 11 w3600 0b r300");
    const Properties properties(as_bytes(raw));
    CHECK(properties.number(Property::receive_maximum) == 20);
    CHECK(properties.number(Property::session_expiry_interval) == 3600);
    CHECK(properties.number(Property::subscription_identifier) == 300);
    CHECK(properties.text(Property::authentication_method) == "SCRAM");
    CHECK_FALSE(properties.number(Property::topic_alias).has_value());
    CHECK_FALSE(properties.text(Property::reason_string).has_value());
    CHECK_FALSE(properties.empty());
    CHECK(Properties().empty());
}

TEST_CASE("properties are visited in the order of the packet") {
    const std::string raw = wire("26 s'a' s'b' 21 k20 26 s'c' s'd'");
    std::string seen;
    Properties(as_bytes(raw)).for_each([&](const PropertyValue& value) {
        seen += std::string(name(value.id)) + '(' + std::string(value.key) + ',' +
                std::string(value.text) + ',' + std::to_string(value.number) + ") ";
    });
    CHECK(seen == "user property(a,b,0) receive maximum(,,20) user property(c,d,0) ");
}

TEST_CASE("properties that end too early are visited up to there") {
    const std::string raw = wire("21 k20 15 s9 'SCRAM'");
    int visited = 0;
    Properties(as_bytes(raw)).for_each([&](const PropertyValue&) { ++visited; });
    CHECK(visited == 1);
}

TEST_CASE("a property list is built from numbers, texts and pairs") {
    PropertyList list;
    CHECK(list.empty());
    list.add(Property::maximum_qos, 1)
        .add(Property::receive_maximum, 20)
        .add(Property::session_expiry_interval, 3600)
        .add(Property::subscription_identifier, 300)
        .add(Property::reason_string, "why")
        .add(Property::correlation_data, std::string_view("\0\xFF", 2))
        .add_user("k", "v");
    CHECK_FALSE(list.empty());
    CHECK(hex(as_text(list.view().raw())) ==
          hex(wire("24 01 21 k20 11 w3600 0b r300 1f s'why' 09 s2 00ff 26 s'k' s'v'")));
}

TEST_CASE("a property list is copied property by property") {
    const std::string raw = wire("24 01 21 k20 11 w3600 0b r300 1f s'why' 26 s'k' s'v'");
    PropertyList copy;
    Properties(as_bytes(raw)).for_each([&](const PropertyValue& value) { copy.add(value); });
    CHECK(copy.view() == Properties(as_bytes(raw)));
    CHECK(std::move(copy).take() == raw);
}
