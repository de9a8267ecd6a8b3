// MQTT 5.0: what a gateway does that is set to offer less.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

namespace {

/// The CONNACK's bytes, with which the connection begins.
std::string connack_bytes(const Gateway& gateway) {
    Conversation c(gateway);
    return c.send(connect("p")).packet();
}

}  // namespace

TEST_CASE("5.0 [MQTT-3.2.2-9] a gateway that takes less than QoS 2 says so, and no other does") {
    for (const unsigned qos : {0u, 1u}) {
        Gateway gateway([&](Config& config) { config.max_qos = static_cast<QoS>(qos); });
        const auto packet = connack_bytes(gateway);
        CHECK(read_as<Connack>(packet).properties.number(Property::maximum_qos) == qos);
    }
    Gateway usual;
    const auto packet = connack_bytes(usual);
    CHECK(!read_as<Connack>(packet).properties.number(Property::maximum_qos));
}

TEST_CASE("5.0 [MQTT-3.2.2-10] a gateway that takes less than QoS 2 accepts subscriptions to it") {
    for (const unsigned qos : {0u, 1u}) {
        Gateway gateway([&](Config& config) { config.max_qos = static_cast<QoS>(qos); });
        auto c = join(gateway, connect("p"));
        const auto packet = c.send("82 r k1 [ ] s'a' 00 s'b' 01 s'c' 02").packet();
        const auto suback = read_as<Suback>(packet);
        for (const Reason reason : suback.reasons) CHECK(!is_error(reason));
        c.send("30 r s'c' [ ] 'hi'").expect("30 r s'c' [ ] 'hi'");
    }
}

TEST_CASE(
    "5.0 [MQTT-3.2.2-11] a message above the maximum QoS that was announced is answered with "
    "0x9B") {
    const auto ends = [](unsigned max_qos, const char* packet) {
        Gateway gateway([&](Config& config) { config.max_qos = static_cast<QoS>(max_qos); });
        auto c = join(gateway, connect("p"));
        c.send(packet).expect_close(Reason::qos_not_supported);
    };
    ends(1, "34 r s'x' k1 [ ]");
    ends(0, "34 r s'x' k1 [ ]");
    ends(0, "32 r s'x' k1 [ ]");
}

TEST_CASE("5.0 [MQTT-3.2.2-12] a will above the maximum QoS is refused with 0x9B") {
    const auto refused = [](unsigned max_qos, const char* flags) {
        Gateway gateway([&](Config& config) { config.max_qos = static_cast<QoS>(max_qos); });
        return refusal(gateway, connect("p", "", flags, "[ ] s'will' s'gone'"));
    };
    CHECK(refused(1, "16") == Reason::qos_not_supported);
    CHECK(refused(0, "16") == Reason::qos_not_supported);
    CHECK(refused(0, "0e") == Reason::qos_not_supported);
}

TEST_CASE("5.0 [MQTT-3.2.2-13] a will to retain is refused with 0x9A where nothing is retained") {
    Gateway gateway([](Config& config) { config.retain_available = false; });
    const auto packet = connack_bytes(gateway);
    CHECK(read_as<Connack>(packet).properties.number(Property::retain_available) == 0u);
    CHECK(refusal(gateway, connect("p", "", "26", "[ ] s'will' s'gone'")) ==
          Reason::retain_not_supported);
    join(gateway, connect("p", "", "06", "[ ] s'will' s'gone'")).expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-3.2.2-14] a message to retain is answered with 0x9A where nothing is retained") {
    Gateway gateway([](Config& config) { config.retain_available = false; });
    auto c = join(gateway, connect("p"));
    c.send("31 r s'x' [ ] 'keep'").expect_close(Reason::retain_not_supported);
}

TEST_CASE("5.0 [MQTT-3.2.2-18] any topic alias is answered with 0x94 where none was offered") {
    Gateway gateway([](Config& config) { config.topic_alias_maximum = 0; });
    const auto packet = connack_bytes(gateway);
    CHECK(read_as<Connack>(packet).properties.number(Property::topic_alias_maximum).value_or(0) ==
          0);
    auto c = join(gateway, connect("p"));
    c.send("30 r s'x' [ 23 k1 ]").expect_close(Reason::topic_alias_invalid);
}
