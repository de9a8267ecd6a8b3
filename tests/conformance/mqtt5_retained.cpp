// MQTT 5.0, section 3.3.1.3: retained messages, and the subscriptions that get them.

#include <algorithm>

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

namespace {

/// Publishes at QoS 1, and the message has been taken.
void publish(Conversation& sender, const std::string& first_byte, const std::string& topic,
             const std::string& payload) {
    sender.send(first_byte + " r s'" + topic + "' k1 [ ] '" + payload + "'").expect("40 02 k1");
}

/// What a new subscriber of this filter gets as retained: "topic=payload", sorted.
std::vector<std::string> retained(const Gateway& gateway, unsigned shard,
                                  const std::string& filter) {
    auto newcomer = join(gateway, connect(at_home(shard, "newcomer")));
    subscribe(newcomer, filter, "00");
    newcomer.send("c0 00");
    std::vector<std::string> found;
    while (true) {
        const auto packet = newcomer.packet();
        if (packet == wire("d0 00")) break;
        const Publish message = published(packet, v5);
        CHECK(message.retain);
        found.push_back(std::string(message.topic) + "=" + std::string(message.payload));
    }
    std::sort(found.begin(), found.end());
    return found;
}

using Messages = std::vector<std::string>;

}  // namespace

TEST_CASE("5.0 [MQTT-3.3.1-5] the last message to retain replaces the one before") {
    Gateway gateway;
    for (const unsigned from : {0u, 1u})
        for (const unsigned to : {0u, 1u}) {
            auto sender = join(gateway, connect(at_home(from, "sender")));
            publish(sender, "33", "a/1", "old");
            publish(sender, "33", "a/2", "other");
            CHECK(retained(gateway, to, "a/+") == Messages{"a/1=old", "a/2=other"});
            publish(sender, "33", "a/1", "new");
            CHECK(retained(gateway, to, "a/#") == Messages{"a/1=new", "a/2=other"});
            CHECK(retained(gateway, to, "a/1") == Messages{"a/1=new"});
            CHECK(retained(gateway, to, "b/#").empty());
        }
}

TEST_CASE("5.0 [MQTT-3.3.1-5] messages of every QoS are retained, with their QoS") {
    Gateway gateway;
    auto sender = join(gateway, connect(at_home(0, "sender")));
    sender.send("31 r s'a/0' [ ] '!' | 33 r s'a/1' k1 [ ] '!' | 35 r s'a/2' k2 [ ] '!'");
    sender.expect("40 02 k1 | 50 02 k2").send("62 02 k2").expect("70 02 k2");
    auto newcomer = join(gateway, connect(at_home(1, "newcomer")));
    for (const char* number : {"0", "1", "2"}) {
        subscribe(newcomer, "a/" + std::string(number), "02");
        const auto packet = newcomer.packet();
        const Publish message = published(packet, v5);
        CHECK(message.retain);
        CHECK(static_cast<int>(message.qos) == std::stoi(number));
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.1-6] [MQTT-3.3.1-7] an empty message to retain is delivered, removes the one "
    "before, and is not kept") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto receiver = join(gateway, connect(at_home(shard, "receiver")));
        subscribe(receiver, "a", "00");
        publish(sender, "33", "a", "here");
        publish(sender, "33", "a", "");
        receiver.expect("30 r s'a' [ ] 'here' | 30 r s'a' [ ]").expect_nothing();
        CHECK(retained(gateway, shard, "a").empty());
        publish(sender, "33", "a", "");  // and where there is none
        CHECK(retained(gateway, shard, "a").empty());
    }
}

TEST_CASE("5.0 [MQTT-3.3.1-8] a message without RETAIN leaves the retained one alone") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        publish(sender, "32", "never", "passing");
        CHECK(retained(gateway, shard, "never").empty());
        publish(sender, "33", "a", "kept");
        publish(sender, "32", "a", "passing");
        publish(sender, "32", "a", "");
        CHECK(retained(gateway, shard, "a") == Messages{"a=kept"});
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11] retain handling decides whether a "
    "subscription gets the retained messages") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        publish(sender, "33", "a/b", "kept");
        const auto client = at_home(shard, "curious");
        auto c = join(gateway, connect(client, kept));
        const auto given = [&](Conversation& to, const char* filter, const char* options) {
            subscribe(to, filter, options).send("c0 00");
            const bool message = to.packet() == wire("31 r s'a/b' [ ] 'kept'");
            if (message) to.expect("d0 00");
            return message;
        };
        CHECK(given(c, "a/b", "00"));  // 0: always
        CHECK(given(c, "a/b", "00"));
        CHECK(!given(c, "a/b", "10"));  // 1: with a new subscription only
        CHECK(given(c, "a/+", "10"));
        CHECK(!given(c, "a/+", "10"));
        CHECK(!given(c, "a/#", "20"));  // 2: never
        CHECK(!given(c, "a/b", "20"));
        CHECK(!given(c, "a/#", "10"));
        CHECK(given(c, "a/#", "00"));
        c.send("a2 r k5 [ ] s'a/b'").expect("b0 r k5 [ ] 00");
        CHECK(given(c, "a/b", "10"));
        leave(c);
        // A session keeps its subscriptions, and is not given anything for them on its return.
        auto again = resume(gateway, client);
        again.expect_nothing();
        CHECK(!given(again, "a/b", "10"));
        CHECK(given(again, "a/b", "00"));
    }
}

TEST_CASE(
    "5.0 [MQTT-3.3.1-12] [MQTT-3.3.1-13] RETAIN comes as it was published if the subscription asks "
    "for it") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto plain = join(gateway, connect(at_home(shard, "plain")));
        auto curious = join(gateway, connect(at_home(shard, "curious")));
        auto both = join(gateway, connect(at_home(shard, "both")));
        const auto topic = "x/" + std::to_string(shard);
        subscribe(plain, topic, "00");
        subscribe(curious, topic, "08");
        subscribe(both, topic, "00");
        subscribe(both, "x/+", "28");  // does not ask for what the other shard's turn left
        sender.send("31 r s'" + topic + "' [ ] '1' | 30 r s'" + topic + "' [ ] '2'");
        sender.expect_nothing();
        const auto message = [&](const char* first_byte, const char* payload) {
            return std::string(first_byte) + " r s'" + topic + "' [ ] '" + payload + "'";
        };
        plain.expect(message("30", "1")).expect(message("30", "2")).expect_nothing();
        curious.expect(message("31", "1")).expect(message("30", "2")).expect_nothing();
        both.expect(message("31", "1")).expect(message("30", "2")).expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.8.4-4] a subscription that is replaced loses no message and is given the retained "
    "ones again") {
    constexpr int messages = 2'000;
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto receiver = join(gateway, connect(at_home(shard, "receiver"), "21 k65535"));
        publish(sender, "33", "a/kept", "kept");
        subscribe(receiver, "a/+", "00");
        CHECK(hear(receiver, 1).front() == "kept");
        std::string flood;
        for (int i = 0; i < messages; ++i)
            flood += wire("30 r s'a/b' [ ] '" + std::to_string(i) + "'");
        at_once({[&] { sender.send_bytes(flood).expect_nothing(); },
                 [&] {
                     int next = 0;
                     int kept_seen = 0;
                     int replaced = 0;
                     receiver.send("82 r k1 [ ] s'a/+' 00");
                     while (next < messages || replaced < 20 || kept_seen < 20) {
                         const auto packet = receiver.packet();
                         if (packet == wire("90 r k1 [ ] 00")) {
                             if (++replaced < 20) receiver.send("82 r k1 [ ] s'a/+' 00");
                         } else if (published(packet, v5).retain) {
                             ++kept_seen;
                         } else {
                             REQUIRE(published(packet, v5).payload == std::to_string(next));
                             ++next;
                         }
                     }
                 }});
        receiver.expect_nothing();
    }
}
