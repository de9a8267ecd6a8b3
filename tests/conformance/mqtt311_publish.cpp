#include <doctest/doctest.h>

#include <string>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

TEST_CASE("3.1.1 [MQTT-3.3.1-2] DUP at QoS 0 closes the connection") {
    Gateway gateway;
    clean_session(gateway, "p").send("38 r s'x' 'hi'").expect_close();
    clean_session(gateway, "p").send("39 r s'x' 'hi'").expect_close();
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.1-2] [MQTT-4.3.1-1] the gateway sends QoS 0 with QoS 0 and without "
    "DUP") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto receiver = clean_session(gateway, at_home(shard, "receiver"));
        subscribe(receiver, "all", 2);
        subscribe(receiver, "low", 0);
        publish(sender, 0, "all", "0");
        sender.send("3a r s'low' k1 '1' | 3c r s'low' k2 '2'").expect("40 02 k1 | 50 02 k2");
        sender.send("62 02 k2").expect("70 02 k2");
        receiver.expect("30 r s'all' '0' | 30 r s'low' '1' | 30 r s'low' '2'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.3.1-3] the DUP flag of a publisher is not passed on") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto receiver = clean_session(gateway, at_home(shard, "receiver"));
        subscribe(receiver, "x", 2);
        sender.send("3a r s'x' k1 'one'").expect("40 02 k1");
        sender.send("3c r s'x' k2 'two'").expect("50 02 k2");
        sender.send("62 02 k2").expect("70 02 k2");
        receiver.expect("32 r s'x' k1 'one' | 34 r s'x' k2 'two'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.3.1-4] QoS 3 closes the connection") {
    Gateway gateway;
    for (const std::string first : {"36", "37", "3e", "3f"})
        clean_session(gateway, "p").send(first + " r s'x' k1 'hi'").expect_close();
}

TEST_CASE("3.1.1 [MQTT-3.3.2-1] a PUBLISH that does not begin with a topic closes the connection") {
    Gateway gateway;
    for (const std::string packet : {"30 00", "30 r 00", "30 r s9 'x'", "32 r s'x'", "32 r s'x' 00",
                                     "30 r s2 c328 'hi'", "30 r s3 eda080 'hi'"})
        clean_session(gateway, "p").send(packet).expect_close();
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.2-2] [MQTT-4.7.1-1] a topic with a wildcard closes the connection, a "
    "filter may have one") {
    Gateway gateway;
    for (const std::string topic : {"#", "+", "a/#", "a/+", "+/b", "a/+/c", "a#", "a+b"}) {
        CAPTURE(topic);
        clean_session(gateway, "p").send("30 r s'" + topic + "' 'hi'").expect_close();
        clean_session(gateway, "p").send("32 r s'" + topic + "' k1 'hi'").expect_close();
    }
    auto c = clean_session(gateway, "p");
    c.send("82 r k1 s'a/#' 00 s'+/b' 01").expect("90 04 k1 00 01");
}

TEST_CASE(
    "3.1.1 [MQTT-3.3.2-3] subscribers get the topic as it was published, and only topics that "
    "match their filters") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u}) {
        auto receiver = clean_session(gateway, at_home(shard, "receiver"));
        receiver.send("82 r k1 s'a/+/c' 00 s'b/#' 00 s'exact' 00").expect("90 05 k1 00 00 00");
        sender.send(
            "30 r s'a/b' | 30 r s'a/b/c' | 30 r s'a/b/d' | 30 r s'a//c' | 30 r s'b' | "
            "30 r s'b/c/d' | 30 r s'bb' | 30 r s'exact' | 30 r s'exact/' | 30 r s'Exact' | "
            "30 r s'b/'");
        receiver
            .expect(
                "30 r s'a/b/c' | 30 r s'a//c' | 30 r s'b' | 30 r s'b/c/d' | 30 r s'exact' | "
                "30 r s'b/'")
            .expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.3.4-1] a PUBLISH is answered according to its QoS") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        auto receiver = clean_session(gateway, at_home(0, "receiver"));
        subscribe(receiver, "heard", 2);
        for (const std::string topic : {"heard", "unheard"}) {
            sender.send("30 r s'" + topic + "' 'hi'").expect_nothing();
            sender.send("32 r s'" + topic + "' k5 'hi'").expect("40 02 k5").expect_nothing();
            sender.send("34 r s'" + topic + "' k6 'hi'").expect("50 02 k6").expect_nothing();
            sender.send("62 02 k6").expect("70 02 k6").expect_nothing();
        }
    }
}

TEST_CASE("3.1.1 [MQTT-3.3.5-1] where filters overlap, the highest of their QoS counts") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u}) {
        auto receiver = clean_session(gateway, at_home(shard, "receiver"));
        receiver.send("82 r k1 s'a/b' 00 s'a/+' 02 s'a/#' 01").expect("90 05 k1 00 02 01");
        publish(sender, 2, "a/b", "two");
        publish(sender, 1, "a/b", "one");
        publish(sender, 2, "a/b/c", "one");
        receiver.expect("34 r s'a/b' k1 'two' | 32 r s'a/b' k2 'one' | 32 r s'a/b/c' k3 'one'")
            .expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.3.5-2] what a client may not publish is acknowledged and goes nowhere") {
    Gateway gateway;
    auto watcher = clean_session(gateway, at_home(0, "watcher"));
    watcher.send("82 r k1 s'$SYS/x' 02 s'presence/nobody' 02 s'last' 00")
        .expect("90 05 k1 02 02 00");
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        for (const std::string topic : {"$SYS/x", "presence/nobody"}) {
            publish(sender, 0, topic, "forged");
            publish(sender, 1, topic, "forged");
            publish(sender, 2, topic, "forged");
        }
        publish(sender, 0, "last", "");
    }
    for (int lasts = 0; lasts < 2;) {
        const auto packet = watcher.packet();
        if (published(packet).topic == "last") ++lasts;  // else it is nobody's true presence
        CHECK(published(packet).payload != "forged");
    }
}

TEST_CASE("3.1.1 [MQTT-3.6.1-1] a PUBREL with other flags than 0010 closes the connection") {
    Gateway gateway;
    for (const std::string pubrel :
         {"60 02 k5", "61 02 k5", "63 02 k5", "64 02 k5", "66 02 k5", "6a 02 k5", "6f 02 k5"}) {
        CAPTURE(pubrel);
        auto c = clean_session(gateway, "p");
        c.send("34 r s'x' k5 'hi'").expect("50 02 k5").send(pubrel).expect_close();
    }
}
