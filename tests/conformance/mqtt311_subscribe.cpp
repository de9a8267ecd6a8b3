#include <doctest/doctest.h>

#include <string>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

namespace {

void check_closes(const Gateway& gateway, const std::string& packet) {
    CAPTURE(packet);
    clean_session(gateway, "p").send(packet).expect_close();
}

}  // namespace

TEST_CASE("3.1.1 [MQTT-3.8.1-1] a SUBSCRIBE with other flags than 0010 closes the connection") {
    Gateway gateway;
    for (const std::string first : {"80", "81", "83", "84", "86", "8a", "8f"})
        check_closes(gateway, first + " r k1 s'x' 00");
}

TEST_CASE(
    "3.1.1 [MQTT-3.8.3-1] a SUBSCRIBE with a filter that is not UTF-8 closes the connection") {
    Gateway gateway;
    for (const std::string filter : {"s2 c328", "s3 eda080", "s1 ff", "s9 'x'"})
        check_closes(gateway, "82 r k1 " + filter + " 00");
}

TEST_CASE("3.1.1 [MQTT-3.8.3-3] a SUBSCRIBE without filters closes the connection") {
    Gateway gateway;
    check_closes(gateway, "82 02 k1");
    check_closes(gateway, "82 00");
}

TEST_CASE(
    "3.1.1 [MQTT-3.8.3-4] a requested QoS of 3, or with reserved bits, closes the "
    "connection") {
    Gateway gateway;
    for (const std::string qos : {"03", "04", "08", "10", "20", "40", "80", "81", "ff"}) {
        check_closes(gateway, "82 r k1 s'x' " + qos);
        check_closes(gateway, "82 r k1 s'good' 01 s'x' " + qos);
    }
    check_closes(gateway, "82 r k1 s'x'");  // none at all
}

TEST_CASE(
    "3.1.1 [MQTT-3.8.4-3] the same filter again replaces the subscription and sends what is "
    "retained again") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u})
        for (const std::string filter : {"a/b", "a/+"}) {
            publish_retained(sender, 1, "a/b", "kept");
            auto c = clean_session(gateway, at_home(shard, "p"));
            subscribe(c, filter, 0);
            c.expect("31 r s'a/b' 'kept'").expect_nothing();
            subscribe(c, filter, 2);
            c.expect("33 r s'a/b' k1 'kept'").expect_nothing();
            publish(sender, 2, "a/b", "now");
            c.expect("34 r s'a/b' k2 'now'").expect_nothing();  // one copy, at the new QoS
            subscribe(c, filter, 0);
            c.expect("31 r s'a/b' 'kept'").expect_nothing();
            publish(sender, 2, "a/b", "then");
            c.expect("30 r s'a/b' 'then'").expect_nothing();
            c.send("a2 r k2 s'" + filter + "'").expect("b0 02 k2");  // there is one to remove
            publish(sender, 2, "a/b", "no more");
            c.expect_nothing();
        }
}

TEST_CASE("3.1.1 [MQTT-3.8.4-3] nothing is lost or doubled while a subscription is replaced") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto receiver = clean_session(gateway, at_home(shard, "receiver"));
        const auto topic = "n" + std::to_string(shard);
        subscribe(receiver, topic, 1);
        constexpr int count = 500;
        std::string messages;
        for (int i = 0; i < count; ++i)
            messages += wire("32 r s'" + topic + "' k" + std::to_string(i + 1) + " '" +
                             std::to_string(i) + "'");
        sender.send_bytes(messages);
        for (int i = 0; i < count;) {
            const auto packet = receiver.packet();
            if (packet[0] == '\x90') continue;
            const Publish message = published(packet);
            REQUIRE(message.payload == std::to_string(i));
            REQUIRE(message.qos == QoS::at_least_once);
            receiver.send("40 02 k" + std::to_string(message.packet_id));
            if (++i % 20 == 0) receiver.send("82 r k7 s'" + topic + "' 01");
        }
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.8.4-4] several filters in one SUBSCRIBE do what so many SUBSCRIBEs would, "
    "with one SUBACK") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u}) {
        auto c = clean_session(gateway, at_home(shard, "p"));
        c.send("82 r k3 s'a' 00 s'b' 02 s'a' 01").expect("90 05 k3 00 02 01").expect_nothing();
        publish(sender, 2, "a", "the last one counts");
        publish(sender, 2, "b", "hi");
        c.expect("32 r s'a' k1 'the last one counts' | 34 r s'b' k2 'hi'").expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.8.4-5] [MQTT-3.9.3-1] [MQTT-3.9.3-2] a SUBACK has the granted QoS or 80 "
    "for each filter, in their order") {
    Gateway gateway([](Config& config) { config.max_subscriptions = 6; });
    auto c = clean_session(gateway, "p");
    c.send("82 r k1 s'a' 02 s'b' 00 s'$share/x' 00 s'c' 01 s'$share//x' 02 s'd' 02 s'$share/' 01")
        .expect("90 r k1 02 00 80 01 80 02 80");
    c.send("82 r k2 s'e' 00 s'f' 01 s'one too many' 02 s'a' 02").expect("90 r k2 00 01 80 02");
}

TEST_CASE("3.1.1 [MQTT-3.8.4-6] a message arrives with the lower of its QoS and the one granted") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u}) {
        const auto arrives = [&](unsigned sent, unsigned granted, const char* message) {
            CAPTURE(sent);
            CAPTURE(granted);
            auto receiver = clean_session(gateway, at_home(shard, "receiver"));
            subscribe(receiver, "x", granted);
            publish(sender, sent, "x", "hi");
            receiver.expect(message).expect_nothing();
        };
        arrives(0, 0, "30 r s'x' 'hi'");
        arrives(0, 1, "30 r s'x' 'hi'");
        arrives(0, 2, "30 r s'x' 'hi'");
        arrives(1, 0, "30 r s'x' 'hi'");
        arrives(1, 1, "32 r s'x' k1 'hi'");
        arrives(1, 2, "32 r s'x' k1 'hi'");
        arrives(2, 0, "30 r s'x' 'hi'");
        arrives(2, 1, "32 r s'x' k1 'hi'");
        arrives(2, 2, "34 r s'x' k1 'hi'");
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.8.4-6] [MQTT-3.3.1-5] a retained message arrives with the lower of its QoS "
    "and the one granted") {
    Gateway gateway;
    auto sender = clean_session(gateway, "sender");
    for (const unsigned shard : {0u, 1u}) {
        const auto arrives = [&](unsigned sent, unsigned granted, const char* message) {
            publish_retained(sender, sent, "x", "hi");
            auto receiver = clean_session(gateway, at_home(shard, "receiver"));
            subscribe(receiver, "x", granted);
            receiver.expect(message).expect_nothing();
        };
        arrives(0, 2, "31 r s'x' 'hi'");
        arrives(1, 0, "31 r s'x' 'hi'");
        arrives(1, 2, "33 r s'x' k1 'hi'");
        arrives(2, 0, "31 r s'x' 'hi'");
        arrives(2, 1, "33 r s'x' k1 'hi'");
        arrives(2, 2, "35 r s'x' k1 'hi'");
    }
}

TEST_CASE("3.1.1 [MQTT-3.10.1-1] an UNSUBSCRIBE with other flags than 0010 closes the connection") {
    Gateway gateway;
    for (const std::string first : {"a0", "a1", "a3", "a4", "a6", "aa", "af"})
        check_closes(gateway, first + " r k1 s'x'");
}

TEST_CASE(
    "3.1.1 [MQTT-3.10.3-1] an UNSUBSCRIBE with a filter that is not UTF-8 closes the connection") {
    Gateway gateway;
    for (const std::string filter : {"s2 c328", "s3 eda080", "s1 ff", "s9 'x'"})
        check_closes(gateway, "a2 r k1 " + filter);
}

TEST_CASE("3.1.1 [MQTT-3.10.3-2] an UNSUBSCRIBE without filters closes the connection") {
    Gateway gateway;
    check_closes(gateway, "a2 02 k1");
    check_closes(gateway, "a2 00");
}

TEST_CASE(
    "3.1.1 [MQTT-3.10.4-1] [MQTT-3.10.4-2] only the very same filter is unsubscribed, and at "
    "once") {
    Gateway gateway;
    auto sender = clean_session(gateway, at_home(0, "sender"));
    for (const unsigned shard : {0u, 1u}) {
        auto c = clean_session(gateway, at_home(shard, "p"));
        c.send("82 r k1 s'a/+' 00 s'b/c' 00 s'd' 00").expect("90 05 k1 00 00 00");
        // Those that match the same topics, or look alike, are others.
        c.send("a2 r k2 s'a/b' s'a/#' s'#' s'+/+' s'b/+' s'B/c' s'b/c/' s'/b/c' s'd/#'")
            .expect("b0 02 k2");
        publish(sender, 0, "a/b", "1");
        publish(sender, 0, "b/c", "2");
        publish(sender, 0, "d", "3");
        c.expect("30 r s'a/b' '1' | 30 r s'b/c' '2' | 30 r s'd' '3'").expect_nothing();
        c.send("a2 r k3 s'a/+'").expect("b0 02 k3");
        sender.send("30 r s'a/b' 'no' | 30 r s'b/c' '2'");
        c.expect("30 r s'b/c' '2'").expect_nothing();
        c.send("a2 r k4 s'b/c'").expect("b0 02 k4");
        sender.send("30 r s'a/b' 'no' | 30 r s'b/c' 'no' | 30 r s'd' '3'");
        c.expect("30 r s'd' '3'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.10.4-3] a delivery that had begun is completed after UNSUBSCRIBE") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        subscribe(c, "x", 2);
        publish(sender, 1, "x", "one");
        publish(sender, 2, "x", "two");
        publish(sender, 2, "x", "three");
        c.expect("32 r s'x' k1 'one' | 34 r s'x' k2 'two' | 34 r s'x' k3 'three'");
        c.send("50 02 k2").expect("62 02 k2");
        c.send("a2 r k9 s'x'").expect("b0 02 k9");
        complete(c, "k3");
        c.send("70 02 k2").expect_nothing();
        publish(sender, 1, "x", "no");
        leave(c);
        // The one without its PUBACK is still owed.
        auto again = kept_session(gateway, name);
        again.expect("3a r s'x' k1 'one'").send("40 02 k1").expect_nothing();
        leave(again);
        kept_session(gateway, name).expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.10.4-4] [MQTT-3.10.4-5] an UNSUBSCRIBE that removes nothing is answered "
    "too") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto c = clean_session(gateway, at_home(shard, "p"));
        c.send("a2 r k9 s'unknown'").expect("b0 02 k9");
        c.send("a2 r k10 s'un/+' s'kno/#' s'wn'").expect("b0 02 k10").expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.10.4-6] several filters in one UNSUBSCRIBE are all removed, with one "
    "UNSUBACK") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = clean_session(gateway, at_home(shard, "p"));
        c.send("82 r k1 s'a' 00 s'b/+' 01 s'c/#' 02 s'd' 00").expect("90 06 k1 00 01 02 00");
        c.send("a2 r k2 s'a' s'unknown' s'b/+' s'a' s'c/#'").expect("b0 02 k2").expect_nothing();
        sender.send("30 r s'a' 'no' | 30 r s'b/x' 'no' | 30 r s'c' 'no' | 30 r s'd' 'yes'");
        c.expect("30 r s'd' 'yes'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.12.4-1] every PINGREQ is answered with a PINGRESP") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto c = clean_session(gateway, at_home(shard, "p"));
        c.send("c0 00").expect("d0 00");
        c.send("c0 00 | c0 00 | c0 00").expect("d0 00 | d0 00 | d0 00");
    }
}

TEST_CASE("3.1.1 [MQTT-3.14.1-1] a DISCONNECT with reserved bits is an error, and no farewell") {
    Gateway gateway;
    auto watcher = clean_session(gateway, "watcher");
    subscribe(watcher, "will", 0);
    for (const std::string disconnect : {"e1 00", "e2 00", "e4 00", "e8 00", "ef 00"}) {
        CAPTURE(disconnect);
        Conversation c(gateway);
        c.send("10 r s'MQTT' 04 06 k10 s'p' s'will' s'gone'").expect("20 02 00 00");
        c.send(disconnect).expect_close();
        watcher.expect("30 r s'will' 'gone'");
    }
}
