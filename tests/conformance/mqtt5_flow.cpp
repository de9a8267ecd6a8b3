// MQTT 5.0, section 4.9: flow control by Receive Maximum.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

namespace {

/// Publishes this many messages to `x`, at QoS 1 and 2 in turn.
void publish(Conversation& sender, int messages) {
    for (int i = 1; i <= messages; ++i) {
        const auto text = std::to_string(i);
        if (i % 2)
            sender.send("32 r s'x' k1 [ ] '" + text + "'").expect("40 02 k1");
        else
            publish_exactly_once(sender, "x", text);
    }
}

}  // namespace

TEST_CASE(
    "5.0 [MQTT-3.3.4-9] [MQTT-4.9.0-1] [MQTT-4.9.0-2] no more messages are in flight than the "
    "client's Receive Maximum") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto c = join(gateway, connect(at_home(shard, "receiver"), "21 k2"));
        subscribe(c, "x", "02");
        publish(sender, 8);
        c.expect("32 r s'x' k1 [ ] '1' | 34 r s'x' k2 [ ] '2'").expect_nothing();
        // PUBREC does not end it, PUBCOMP does.
        c.send("50 02 k2").expect("62 02 k2").expect_nothing();
        c.send("70 02 k2").expect("32 r s'x' k3 [ ] '3'").expect_nothing();
        c.send("40 02 k1").expect("34 r s'x' k4 [ ] '4'").expect_nothing();
        // Neither does a PUBACK, PUBREC or PUBCOMP of something else.
        c.send("40 02 k77 | 70 02 k78").expect_nothing();
        // A PUBACK or PUBREC that refuses ends it.
        c.send("50 03 k4 83").expect("32 r s'x' k5 [ ] '5'").expect_nothing();
        c.send("40 03 k3 83").expect("34 r s'x' k6 [ ] '6'").expect_nothing();
        c.send("40 02 k5").expect("32 r s'x' k7 [ ] '7'").expect_nothing();
        c.send("50 02 k6").expect("62 02 k6").send("70 02 k6").expect("34 r s'x' k8 [ ] '8'");
        c.expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-4.9.0-1] [MQTT-4.9.0-2] a Receive Maximum holds for its connection, and for what is "
    "sent again") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto sender = join(gateway, connect("sender"));
        auto first = join(gateway, connect(client, kept + " 21 k4"));
        subscribe(first, "x", "02");
        publish(sender, 6);
        first.expect(
            "32 r s'x' k1 [ ] '1' | 34 r s'x' k2 [ ] '2' | 32 r s'x' k3 [ ] '3' | "
            "34 r s'x' k4 [ ] '4'");
        first.expect_nothing();
        vanish(first);
        auto second = resume(gateway, client, kept + " 21 k1");
        second.expect("3a r s'x' k1 [ ] '1'").expect_nothing();
        second.send("40 02 k1").expect("3c r s'x' k2 [ ] '2'").expect_nothing();
        second.send("50 02 k2").expect("62 02 k2").send("70 02 k2");
        second.expect("3a r s'x' k3 [ ] '3'").expect_nothing();
        vanish(second);
        auto third = resume(gateway, client, kept);  // 65,535, and the gateway's own limit
        third.expect("3a r s'x' k3 [ ] '3' | 3c r s'x' k4 [ ] '4'");
        third.expect("32 r s'x' k5 [ ] '5' | 34 r s'x' k6 [ ] '6'").expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.4-10] [MQTT-4.9.0-3] a full window holds nothing up but messages at QoS 1 and "
    "2") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto c = join(gateway, connect(at_home(shard, "receiver"), "21 k1"));
        subscribe(c, "x", "02");
        publish(sender, 3);
        c.expect("32 r s'x' k1 [ ] '1'").expect_nothing();
        sender.send("30 r s'x' [ ] 'zero'").expect_nothing();
        c.expect("30 r s'x' [ ] 'zero'");
        subscribe(c, "y", "00");
        c.send("a2 r k1 [ ] s'y'").expect("b0 r k1 [ ] 00");
        c.send("32 r s'z' k5 [ ] | 34 r s'z' k6 [ ]").expect("40 02 k5 | 50 02 k6");
        c.send("62 02 k6").expect("70 02 k6").expect_nothing();
        c.send("40 02 k1").expect("34 r s'x' k2 [ ] '2'");
        c.send("50 02 k2").expect("62 02 k2").expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.4-7] more unreleased messages than the gateway's Receive Maximum end the "
    "connection with 0x93") {
    Gateway gateway;
    Conversation c(gateway);
    const auto packet = c.send(connect("p")).packet();
    const auto maximum =
        read_as<Connack>(packet).properties.number(Property::receive_maximum).value_or(65'535);
    CHECK(maximum == 256);
    for (unsigned id = 1; id <= maximum; ++id) {
        const auto k = " k" + std::to_string(id);
        c.send("34 r s'x'" + k + " [ ]").expect("50 02" + k);
    }
    // One that is refused, released or a repetition takes no place.
    c.send("3c r s'x' k7 [ ]").expect("50 02 k7");
    c.send("62 02 k1").expect("70 02 k1").send("34 r s'x' k1000 [ ]").expect("50 02 k1000");
    c.send("34 r s'x' k1001 [ ]").expect_close(Reason::receive_maximum_exceeded);
}

TEST_CASE(
    "5.0 [MQTT-3.3.4-7] messages at QoS 1 that are acknowledged at once never exceed a Receive "
    "Maximum") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    std::string messages;
    std::string expected;
    for (int id = 1; id <= 1000; ++id) {
        messages += wire("32 r s'x' k" + std::to_string(id) + " [ ]");
        expected += (id > 1 ? " | 40 02 k" : "40 02 k") + std::to_string(id);
    }
    c.send_bytes(messages).expect(expected);
}
