#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/gateway.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

TEST_CASE("a message reaches subscribers of both versions on both shards") {
    Gateway gateway;
    for (const unsigned from : {0u, 1u})
        for (const unsigned to : {0u, 1u}) {
            CAPTURE(from);
            CAPTURE(to);
            Conversation sender(gateway);
            Conversation older(gateway);
            Conversation newer(gateway);
            sender.login(at_home(from, "sender"));
            older.login(at_home(to, "older")).send("82 r k1 s'room/1' 00").expect("90 03 k1 00");
            newer.login(at_home(to, "newer"), v5)
                .send("82 r k1 [ ] s'room/1' 00")
                .expect("90 r k1 [ ] 00");
            sender.send("30 r s'room/1' 'hello'").expect_nothing();
            older.expect("30 r s'room/1' 'hello'").expect_nothing();
            newer.expect("30 r s'room/1' [ ] 'hello'").expect_nothing();
        }
}

TEST_CASE("QoS 1 is acknowledged to the publisher and asked of the subscriber") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation receiver(gateway);
    sender.login(at_home(0, "sender"));
    receiver.login(at_home(1, "receiver")).send("82 r k1 s'x' 01").expect("90 03 k1 01");
    sender.send("32 r s'x' k77 'one' | 32 r s'x' k78 'two'").expect("40 02 k77 | 40 02 k78");
    receiver.expect("32 r s'x' k1 'one' | 32 r s'x' k2 'two'").send("40 02 k2 | 40 02 k1");
    receiver.expect_nothing();
}

TEST_CASE("a message arrives with the lower of its own QoS and that of the subscription") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p").send("82 r k1 s'a' 00 s'b' 01 s'c' 02").expect("90 05 k1 00 01 02");
    c.send("32 r s'a' k5 '!'").expect("30 r s'a' '!' | 40 02 k5");
    c.send("30 r s'b' '!'").expect("30 r s'b' '!'");
    c.send("32 r s'c' k6 '!'").expect("32 r s'c' k1 '!' | 40 02 k6");
}

TEST_CASE("a PUBACK for a message that is not in flight harms nobody") {
    Gateway gateway;
    Conversation(gateway).login("p", v5).send("40 02 k1").expect_nothing();
    Conversation c(gateway);
    c.login("q").send("82 r k1 s'x' 01").expect("90 03 k1 01");
    c.send("32 r s'x' k5 '!'").expect("32 r s'x' k1 '!' | 40 02 k5");
    c.send("40 02 k1 | 40 02 k1").expect_nothing();
    c.send("32 r s'x' k6 '!'").expect("32 r s'x' k2 '!' | 40 02 k6");
}

TEST_CASE("a message with an empty payload is a message") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p").send("82 r k1 s'x' 00").expect("90 03 k1 00");
    c.send("30 r s'x'").expect("30 r s'x'");
}

TEST_CASE("messages of one sender arrive in their order") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation receiver(gateway);
    sender.login(at_home(0, "sender"));
    receiver.login(at_home(1, "receiver")).send("82 r k1 s'n' 00").expect("90 03 k1 00");
    std::string sent;
    for (int i = 0; i < 2000; ++i) sent += wire("30 r s'n' '" + std::to_string(i) + "'");
    sender.send_bytes(sent).expect_nothing();
    for (int i = 0; i < 2000; ++i) {
        const auto packet = receiver.packet();
        REQUIRE(published(packet).payload == std::to_string(i));
    }
}

TEST_CASE("overlapping subscriptions give one copy, at the highest QoS, with all identifiers") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation newer(gateway);
    Conversation older(gateway);
    sender.login(at_home(0, "sender"));
    newer.login(at_home(1, "newer"), v5)
        .send("82 r k1 [ 0b r5 ] s'a/b' 00 | 82 r k2 [ 0b r300 ] s'a/+' 01 | 82 r k3 [ ] s'a/#' 00")
        .expect("90 r k1 [ ] 00 | 90 r k2 [ ] 01 | 90 r k3 [ ] 00");
    older.login(at_home(1, "older")).send("82 r k1 s'a/b' 00 s'a/+' 01").expect("90 04 k1 00 01");
    sender.send("32 r s'a/b' k1 'hi'").expect("40 02 k1");

    older.expect("32 r s'a/b' k1 'hi'").expect_nothing();
    const auto packet = newer.packet();
    const Publish publish = published(packet, v5);
    CHECK(publish.qos == QoS::at_least_once);
    CHECK(publish.payload == "hi");
    std::vector<std::uint32_t> identifiers;
    publish.properties.for_each([&](const PropertyValue& property) {
        CHECK(property.id == Property::subscription_identifier);
        identifiers.push_back(property.number);
    });
    std::sort(identifiers.begin(), identifiers.end());
    CHECK(identifiers == std::vector<std::uint32_t>{5, 300});
    newer.expect_nothing();
}

TEST_CASE("no-local spares the publisher its own messages, and nobody else") {
    Gateway gateway;
    Conversation self(gateway);
    Conversation device(gateway);  // of the same user
    const auto user = at_home(0, "carol");
    self.send("10 r s'MQTT' 05 82 k10 [ ] s'one' s'" + user + "'");
    device.send("10 r s'MQTT' 05 82 k10 [ ] s'two' s'" + user + "'");
    self.packet();
    device.packet();
    for (auto* c : {&self, &device}) c->send("82 r k1 [ ] s'x' 04").expect("90 r k1 [ ] 00");
    self.send("30 r s'x' [ ] 'mine'").expect_nothing();
    device.expect("30 r s'x' [ ] 'mine'").expect_nothing();
    self.send("82 r k2 [ ] s'+' 00").expect("90 r k2 [ ] 00");
    self.send("30 r s'x' [ ] 'again'").expect("30 r s'x' [ ] 'again'").expect_nothing();
}

TEST_CASE(
    "the retain flag of a 3.1.1 publisher is kept for subscriptions with retain as published") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation plain(gateway);
    Conversation curious(gateway);
    sender.login(at_home(0, "sender"));
    plain.login(at_home(1, "plain"), v5).send("82 r k1 [ ] s'x' 00").expect("90 r k1 [ ] 00");
    curious.login(at_home(1, "curious"), v5).send("82 r k1 [ ] s'x' 08").expect("90 r k1 [ ] 00");
    sender.send("31 r s'x' 'kept?' | 30 r s'x' 'no'").expect_nothing();
    plain.expect("30 r s'x' [ ] 'kept?' | 30 r s'x' [ ] 'no'").expect_nothing();
    curious.expect("31 r s'x' [ ] 'kept?' | 30 r s'x' [ ] 'no'").expect_nothing();
}

TEST_CASE("the properties of a message travel with it, user properties in their order") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation newer(gateway);
    Conversation older(gateway);
    sender.login(at_home(0, "sender"), v5);
    newer.login(at_home(1, "newer"), v5).send("82 r k1 [ ] s'x' 00").expect("90 r k1 [ ] 00");
    older.login(at_home(1, "older")).send("82 r k1 s'x' 00").expect("90 03 k1 00");
    const std::string properties =
        "[ 26 s'z' s'1' 01 01 26 s'a' s'2' 02 w60 03 s'text/plain' 08 s'reply/here' 09 s4 01020304 "
        "26 s'z' s'1' ]";
    sender.send("30 r s'x' " + properties + " 'hi'").expect_nothing();
    const std::string ordered =
        "[ 02 w60 26 s'z' s'1' 01 01 26 s'a' s'2' 03 s'text/plain' 08 s'reply/here' 09 s4 01020304 "
        "26 s'z' s'1' ]";
    newer.expect("30 r s'x' " + ordered + " 'hi'");
    older.expect("30 r s'x' 'hi'");
}

TEST_CASE("a QoS above max-qos is refused with 0x9B, and granted as max-qos") {
    Gateway gateway([](Config& config) { config.max_qos = QoS::at_least_once; });
    Conversation(gateway)
        .send("10 r s'MQTT' 05 02 k10 [ ] s'p'")
        .expect("20 r 00 00 [ 21 k256 24 01 27 w262144 22 k16 ]")
        .send("82 r k1 [ ] s'x' 02")
        .expect("90 r k1 [ ] 01")
        .send("34 r s'x' k1 [ ] 'hi'")
        .expect_close(Reason::qos_not_supported);
    Conversation(gateway).login("q").send("34 r s'x' k1 'hi'").expect_close();
}

TEST_CASE("without retain-available retain is refused with 0x9A, and ignored in 3.1.1") {
    Gateway gateway([](Config& config) { config.retain_available = false; });
    Conversation(gateway)
        .send("10 r s'MQTT' 05 02 k10 [ ] s'p'")
        .expect("20 r 00 00 [ 21 k256 25 00 27 w262144 22 k16 ]")
        .send("31 r s'x' [ ] 'hi'")
        .expect_close(Reason::retain_not_supported);
    Conversation c(gateway);
    c.login("q").send("31 r s'x' 'hi'").expect_nothing();
    c.send("82 r k1 s'x' 00").expect("90 03 k1 00").expect_nothing();
}

TEST_CASE("a topic alias above topic-alias-maximum is refused with 0x94") {
    Gateway gateway([](Config& config) { config.topic_alias_maximum = 3; });
    for (const char* topic : {"s'x'", "s''"})
        Conversation(gateway)
            .send("10 r s'MQTT' 05 02 k10 [ ] s'p'")
            .expect("20 r 00 00 [ 21 k256 27 w262144 22 k3 ]")
            .send("30 r " + std::string(topic) + " [ 23 k4 ] 'hi'")
            .expect_close(Reason::topic_alias_invalid);
}

TEST_CASE("only the gateway publishes to presence and $ topics") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login(at_home(0, "watcher"), v5)
        .send("82 r k1 [ ] s'presence/alice' 01 s'$x' 01")
        .expect("90 r k1 [ ] 01 01");
    for (const unsigned shard : {0u, 1u}) {
        Conversation c(gateway);
        c.login(at_home(shard, "p"), v5)
            .send("32 r s'presence/alice' k1 [ ] 'online' | 32 r s'$x' k2 [ ] '!'")
            .expect("40 03 k1 87 | 40 03 k2 87")
            .send("30 r s'$SYS/broker' [ ] '!'")
            .expect_nothing();
        Conversation older(gateway);
        older.login(at_home(shard, "q")).send("32 r s'presence/alice' k1 '!'").expect("40 02 k1");
        watcher.expect_nothing();
    }
}

TEST_CASE("a topic with a wildcard is not a topic") {
    Gateway gateway;
    for (const char* topic : {"a/+", "#", "a/b+"}) {
        CAPTURE(topic);
        const auto packet = "30 r s'" + std::string(topic) + "' ";
        Conversation(gateway).login("p").send(packet).expect_close();
        Conversation(gateway)
            .login("p", v5)
            .send(packet + "[ ]")
            .expect_close(Reason::topic_name_invalid);
    }
}

TEST_CASE("a publisher of 5.0 is told whether anybody gets its message, on whatever shard") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation older(gateway);
    sender.login(at_home(0, "sender"), v5);
    older.login(at_home(0, "older"));
    const auto publish = [&](const std::string& topic, const char* reason) {
        const std::string rest = " r s'" + topic + "' ";
        const std::string last = *reason ? " k1 " + std::string(reason) : " k1";
        const std::string size = *reason ? " 03" : " 02";
        sender.send("32" + rest + "k1 [ ] 'm'").expect("40" + size + last);
        sender.send("34" + rest + "k1 [ ] 'm' | 62 02 k1")
            .expect("50" + size + last + " | 70 02 k1");
        older.send("32" + rest + "k1 'm'").expect("40 02 k1");
    };
    publish("nobody", "10");
    for (const unsigned shard : {0u, 1u}) {
        CAPTURE(shard);
        const auto topic = "to" + std::to_string(shard);
        Conversation receiver(gateway);
        receiver.login(at_home(shard, "receiver")).send("82 r k1 s'" + topic + "' 00");
        receiver.expect("90 03 k1 00");
        publish(topic, "");
        receiver.send("a2 r k2 s'" + topic + "'");
    }
    publish("$delayed/cancel/none", "10");
}

TEST_CASE("one's own message that no-local keeps away reaches nobody") {
    Gateway gateway;
    Conversation client(gateway);
    client.login("client", v5).send("82 r k1 [ ] s'x' 05").expect("90 r k1 [ ] 01");
    client.send("32 r s'x' k1 [ ] 'm'").expect("40 03 k1 10");
}
