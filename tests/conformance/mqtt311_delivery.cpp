#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

namespace {

/// Identifiers in an order that is not their own.
const std::vector<int> shuffled{7, 3, 65535, 1, 9, 2, 300, 8, 256, 4};

/// "40 02 k7 | 40 02 k3 ..."
std::string for_each(const std::vector<int>& ids, const std::string& before,
                     const std::string& after = "") {
    std::string packets;
    for (const int id : ids)
        packets += (packets.empty() ? "" : " | ") + before + " k" + std::to_string(id) + after;
    return packets;
}

}  // namespace

TEST_CASE("3.1.1 [MQTT-4.3.2-1] QoS 1 goes out once, without DUP, and is done with its PUBACK") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        subscribe(c, "x", 1);
        publish(sender, 1, "x", "one");
        publish(sender, 1, "x", "two");
        c.expect("32 r s'x' k1 'one' | 32 r s'x' k2 'two'").expect_nothing();
        c.send("40 02 k1").expect_nothing();
        leave(c);
        auto again = kept_session(gateway, name);
        again.expect("3a r s'x' k2 'two'").send("40 02 k2").expect_nothing();
        leave(again);
        kept_session(gateway, name).expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-4.3.2-2] after its PUBACK the same identifier is a new message, whatever its "
    "DUP flag") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        auto receiver = clean_session(gateway, at_home(0, "receiver"));
        subscribe(receiver, "x", 0);
        sender.send("32 r s'x' k5 'one'").expect("40 02 k5");
        sender.send("32 r s'x' k5 'two'").expect("40 02 k5");
        sender.send("3a r s'x' k5 'three'").expect("40 02 k5");
        receiver.expect("30 r s'x' 'one' | 30 r s'x' 'two' | 30 r s'x' 'three'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-4.3.3-1] QoS 2 goes out once, and PUBREC is answered with PUBREL") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        subscribe(c, "x", 2);
        publish(sender, 2, "x", "one");
        c.expect("34 r s'x' k1 'one'").expect_nothing();
        c.send("50 02 k1").expect("62 02 k1").expect_nothing();
        c.send("50 02 k1").expect("62 02 k1").expect_nothing();  // said twice
        c.send("70 02 k1").expect_nothing();
        leave(c);
        kept_session(gateway, name).expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-4.3.3-1] a PUBLISH is not sent again after its PUBREC, not even on return") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        subscribe(c, "x", 2);
        publish(sender, 2, "x", "one");
        c.expect("34 r s'x' k1 'one'").send("50 02 k1").expect("62 02 k1");
        c.reset();
        auto again = kept_session(gateway, name);
        again.expect("62 02 k1").send("70 02 k1").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-4.3.3-2] a message of QoS 2 is passed on once until it is released") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        auto receiver = clean_session(gateway, at_home(0, "receiver"));
        subscribe(receiver, "x", 0);
        sender.send("34 r s'x' k5 'one'").expect("50 02 k5");
        sender.send("3c r s'x' k5 'one'").expect("50 02 k5");
        sender.send("34 r s'x' k5 'one'").expect("50 02 k5");
        sender.send("34 r s'x' k6 'two'").expect("50 02 k6");
        sender.send("62 02 k5").expect("70 02 k5");
        sender.send("62 02 k5").expect("70 02 k5");  // said twice
        sender.send("62 02 k6").expect("70 02 k6");
        // From now on the identifier is a new message's.
        sender.send("3c r s'x' k5 'three'").expect("50 02 k5");
        sender.send("62 02 k5").expect("70 02 k5");
        receiver.expect("30 r s'x' 'one' | 30 r s'x' 'two' | 30 r s'x' 'three'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-4.3.3-2] a message of QoS 2 reaches subscribers of every QoS once") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(shard, "sender"));
        std::vector<Conversation> receivers;
        for (const unsigned qos : {0u, 1u, 2u}) {
            receivers.push_back(clean_session(gateway, at_home(1, "r" + std::to_string(qos))));
            subscribe(receivers.back(), "x", qos);
        }
        sender.send("34 r s'x' k5 'hi' | 62 02 k5").expect("50 02 k5 | 70 02 k5");
        receivers[0].expect("30 r s'x' 'hi'").expect_nothing();
        receivers[1].expect("32 r s'x' k1 'hi'").expect_nothing();
        receivers[2].expect("34 r s'x' k1 'hi'").expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-4.6.0-2] PUBACKs come in the order of the messages") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto c = clean_session(gateway, at_home(shard, "p"));
        std::string messages;
        for (const int id : shuffled) messages += wire("32 r s'x' k" + std::to_string(id) + " '!'");
        c.send_bytes(messages).expect(for_each(shuffled, "40 02"));
    }
}

TEST_CASE(
    "3.1.1 [MQTT-4.6.0-3] PUBRECs come in the order of the messages, PUBCOMPs in that of the "
    "PUBRELs") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto c = clean_session(gateway, at_home(shard, "p"));
        std::string messages;
        for (const int id : shuffled) messages += wire("34 r s'x' k" + std::to_string(id) + " '!'");
        c.send_bytes(messages).expect(for_each(shuffled, "50 02"));
        const std::vector<int> released(shuffled.rbegin(), shuffled.rend());
        c.send(for_each(released, "62 02")).expect(for_each(released, "70 02"));
    }
}

TEST_CASE("3.1.1 [MQTT-4.6.0-4] PUBRELs come in the order of the PUBRECs") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = clean_session(gateway, at_home(shard, "p"));
        subscribe(c, "x", 2);
        for (int i = 0; i < 5; ++i) publish(sender, 2, "x", "!");
        c.expect(for_each({1, 2, 3, 4, 5}, "34 r s'x'", " '!'"));
        const std::vector<int> order{4, 1, 5, 3, 2};
        c.send(for_each(order, "50 02")).expect(for_each(order, "62 02"));
        c.send(for_each(order, "70 02")).expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-4.6.0-5] [MQTT-4.6.0-6] messages of one client on one topic arrive in their "
    "order, more of them than may be in flight") {
    Gateway gateway;
    constexpr int count = 1000;
    for (const unsigned shard : {0u, 1u})
        for (const unsigned qos : {1u, 2u}) {
            CAPTURE(qos);
            auto sender = clean_session(gateway, at_home(0, "sender"));
            auto receiver = clean_session(gateway, at_home(shard, "receiver"));
            const auto topic = "n/" + std::to_string(shard) + std::to_string(qos);
            subscribe(receiver, topic + "/#", 2);
            std::string messages;
            std::string answers;
            for (int i = 0; i < count; ++i) {
                const auto id = " k" + std::to_string(i + 1);
                messages += wire(std::string(qos == 1 ? "32" : "34") + " r s'" + topic + "'" + id +
                                 " '" + std::to_string(i) + "'");
                if (qos == 2) messages += wire("62 02" + id);
                answers += wire(qos == 1 ? "40 02" + id : "50 02" + id + " | 70 02" + id);
            }
            sender.send_bytes(messages);
            for (int i = 0; i < count;) {
                const auto packet = receiver.packet();
                if (packet[0] == '\x62') {  // PUBREL
                    receiver.send_bytes(wire("70 02") + packet.substr(2));
                    continue;
                }
                const Publish message = published(packet);
                REQUIRE(message.payload == std::to_string(i++));
                receiver.send((qos == 1 ? "40 02 k" : "50 02 k") +
                              std::to_string(message.packet_id));
            }
            std::string got;
            while (got.size() < answers.size()) got += sender.packet();
            CHECK(got == answers);
        }
}

TEST_CASE("3.1.1 [MQTT-4.6.0-6] messages that waited for a disconnected client arrive in order") {
    Gateway gateway;
    constexpr int count = 600;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto sender = clean_session(gateway, at_home(0, "sender"));
        auto c = new_session(gateway, name);
        const auto topic = "n" + std::to_string(shard);
        subscribe(c, topic, 1);
        leave(c);
        std::string messages;
        for (int i = 0; i < count; ++i)
            messages += wire("32 r s'" + topic + "' k" + std::to_string(i + 1) + " '" +
                             std::to_string(i) + "'");
        sender.send_bytes(messages);
        for (int i = 0; i < count; ++i) sender.packet();
        auto again = kept_session(gateway, name);
        for (int i = 0; i < count; ++i) {
            const auto packet = again.packet();
            const Publish message = published(packet);
            REQUIRE(message.payload == std::to_string(i));
            REQUIRE(!message.dup);
            again.send("40 02 k" + std::to_string(message.packet_id));
        }
        again.expect_nothing();
    }
}
