// MQTT 5.0, sections 3.4 to 3.7: PUBACK, PUBREC, PUBREL, PUBCOMP.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

namespace {

/// The size of the acknowledgement of that type that this request gets with this reason, if the
/// client takes packets of `limit` bytes (0: of any size); and whether it has a reason string.
template <class Acknowledgement>
std::pair<std::size_t, bool> told(const Gateway& gateway, const std::string& request, Reason reason,
                                  std::size_t limit = 0) {
    auto c = join(gateway, connect("p", "17 01" + (limit ? " 27 w" + std::to_string(limit) : "")));
    const auto packet = c.send(request).packet();
    const auto acknowledgement = read_as<Acknowledgement>(packet);
    CHECK(acknowledgement.reason == reason);
    c.expect_nothing();
    return {packet.size(), acknowledgement.properties.text(Property::reason_string).has_value()};
}

/// The reason string is left out just where it would be too much.
template <class Acknowledgement>
void check_trimmed(const Gateway& gateway, const std::string& request, Reason reason) {
    const auto [whole, has_text] = told<Acknowledgement>(gateway, request, reason);
    CHECK(has_text);
    const auto [same, still] = told<Acknowledgement>(gateway, request, reason, whole);
    CHECK(same == whole);
    CHECK(still);
    const auto [shorter, text] = told<Acknowledgement>(gateway, request, reason, whole - 1);
    CHECK(shorter < whole);
    CHECK(!text);
}

}  // namespace

TEST_CASE("5.0 [MQTT-3.4.2-1] PUBACK has a reason code of its own kind, from either side") {
    Gateway gateway;
    auto c = join(gateway, connect("client"));
    c.send("32 r s'x' k1 [ ]").expect("40 02 k1");
    const auto refused = c.send("32 r s'presence/x' k1 [ ]").packet();
    CHECK(read_as<Puback>(refused).reason == Reason::not_authorized);
    for (const char* reason : {"01", "11", "82", "92"})
        check_ends(gateway, "40 03 k1 " + std::string(reason), Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-3.5.2-1] PUBREC has a reason code of its own kind, from either side") {
    Gateway gateway;
    auto c = join(gateway, connect("client"));
    c.send("34 r s'x' k1 [ ]").expect("50 02 k1");
    const auto refused = c.send("34 r s'presence/x' k2 [ ]").packet();
    CHECK(read_as<Pubrec>(refused).reason == Reason::not_authorized);
    for (const char* reason : {"01", "11", "82", "92"})
        check_ends(gateway, "50 03 k1 " + std::string(reason), Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-3.6.1-1] PUBREL with other flags than 0010 is malformed") {
    Gateway gateway;
    for (const char* first_byte : {"60", "61", "63", "64", "6a", "6f"}) {
        auto c = join(gateway, connect("client"));
        c.send("34 r s'x' k1 [ ]").expect("50 02 k1");
        c.send(std::string(first_byte) + " 02 k1").expect_close(Reason::malformed_packet);
    }
}

TEST_CASE("5.0 [MQTT-3.6.2-1] PUBREL has reason 0x00 or 0x92, from either side") {
    Gateway gateway;
    auto c = join(gateway, connect("client"));
    subscribe(c, "x", "02");
    auto sender = join(gateway, connect("sender"));
    publish_exactly_once(sender, "x");
    c.expect("34 r s'x' k1 [ ]");
    c.send("50 02 k1").expect("62 02 k1");
    c.send("50 02 k1").expect("62 02 k1");  // PUBREL is not known to have arrived yet
    c.send("70 02 k1").expect_nothing();
    const auto unknown = c.send("50 02 k1").packet();
    CHECK(read_as<Pubrel>(unknown).reason == Reason::packet_identifier_not_found);
    for (const char* reason : {"10", "80", "87"})
        check_ends(gateway, "62 03 k1 " + std::string(reason), Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-3.7.2-1] PUBCOMP has reason 0x00 or 0x92, from either side") {
    Gateway gateway;
    auto c = join(gateway, connect("client"));
    c.send("34 r s'x' k1 [ ]").expect("50 02 k1").send("62 02 k1").expect("70 02 k1");
    c.send("62 02 k1").expect("70 02 k1");  // PUBCOMP is not known to have arrived
    const auto unknown = c.send("62 02 k2").packet();
    CHECK(read_as<Pubcomp>(unknown).reason == Reason::packet_identifier_not_found);
    for (const char* reason : {"10", "80", "87"})
        check_ends(gateway, "70 03 k1 " + std::string(reason), Reason::protocol_error);
    // Nobody's business any more.
    c.send("70 02 k9 | 70 03 k9 92").expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-3.4.2-2] [MQTT-3.5.2-2] a refused message's reason string stays out where it would "
    "be too much") {
    Gateway gateway;
    check_trimmed<Puback>(gateway, "32 r s'presence/x' k1 [ ]", Reason::not_authorized);
    check_trimmed<Pubrec>(gateway, "34 r s'presence/x' k1 [ ]", Reason::not_authorized);
}

TEST_CASE(
    "5.0 [MQTT-3.6.2-2] [MQTT-3.7.2-2] PUBREL and PUBCOMP are no larger than the client takes") {
    Gateway gateway;
    constexpr std::size_t limit = 20;  // less would not do for the CONNACK
    const auto reason = Reason::packet_identifier_not_found;
    CHECK(told<Pubrel>(gateway, "50 02 k1", reason, limit).first <= limit);
    CHECK(told<Pubcomp>(gateway, "62 02 k1", reason, limit).first <= limit);
}
