// MQTT 5.0, sections 3.8 to 3.12: SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

TEST_CASE("5.0 [MQTT-3.8.1-1] SUBSCRIBE with other flags than 0010 is malformed") {
    Gateway gateway;
    for (const char* first_byte : {"80", "81", "83", "86", "8a"})
        check_ends(gateway, std::string(first_byte) + " r k1 [ ] s'x' 00",
                   Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.8.3-2] SUBSCRIBE without a filter is a protocol error") {
    Gateway gateway;
    check_ends(gateway, "82 r k1 [ ]", Reason::protocol_error);
    check_ends(gateway, "82 r k1 [ ] s'x'", Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.8.3-3] no local spares a client its own messages, and no other client") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto user = "s'" + at_home(shard, "carol") + "'";
        const auto come = [&](const char* flags) {
            return log_in(gateway, connect("phone", kept, flags, user)).first;
        };
        auto phone = come("82");
        auto desk = log_in(gateway, connect("desk", "", "82", user)).first;
        auto stranger = join(gateway, connect(at_home(1 - shard, "stranger")));
        for (auto* c : {&phone, &desk, &stranger}) subscribe(*c, "x", "05");
        phone.send("32 r s'x' k1 [ ] 'mine'").expect("40 02 k1").expect_nothing();
        for (auto* c : {&desk, &stranger})
            c->expect("32 r s'x' k1 [ ] 'mine'").send("40 02 k1").expect_nothing();
        // Its next connection is the same client.
        leave(phone);
        auto again = come("80");
        again.send("32 r s'x' k1 [ ] 'mine too'").expect("40 02 k1").expect_nothing();
        // And another of its filters may want what this one spares it.
        subscribe(again, "+", "00");
        again.send("30 r s'x' [ ] 'yes'").expect("30 r s'x' [ ] 'yes'").expect_nothing();
    }
}

TEST_CASE("5.0 [MQTT-3.8.3-4] no local on a shared subscription is a protocol error") {
    Gateway gateway;
    check_ends(gateway, "82 r k1 [ ] s'$share/g/x' 04", Reason::protocol_error);
    check_ends(gateway, "82 r k1 [ ] s'y' 04 s'$share/g/x' 05", Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-3.8.3-5] reserved option bits are malformed") {
    Gateway gateway;
    for (const char* options : {"40", "80", "c1"})
        check_ends(gateway, "82 r k1 [ ] s'x' " + std::string(options), Reason::malformed_packet);
    check_ends(gateway, "82 r k1 [ ] s'x' 03", Reason::protocol_error);
    check_ends(gateway, "82 r k1 [ ] s'x' 30", Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-3.8.4-1] every SUBSCRIBE is answered") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    for (int id = 1; id <= 100; ++id) {
        const auto k = " k" + std::to_string(id);
        c.send("82 r" + k + " [ ] s'x' 01").expect("90 r" + k + " [ ] 01");
    }
    c.send("82 r k7 [ ] s'deep" + std::string(200, '/') + "' 00");
    const auto refused = c.packet();
    CHECK(read_as<Suback>(refused).packet_id == 7);
}

TEST_CASE("5.0 [MQTT-3.8.4-3] a subscription to the same filter replaces the one before") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(1, "sender")));
        auto c = join(gateway, connect(at_home(shard, "p")));
        subscribe(c, "x/+", "02", "0b 05");
        subscribe(c, "x/+", "09", "0b 06");
        publish_exactly_once(sender, "x/1", "!");
        c.expect("32 r s'x/1' k1 [ 0b 06 ] '!'").expect_nothing();
        subscribe(c, "x/+", "00");
        sender.send("30 r s'x/1' [ ] '!'").expect_nothing();
        c.expect("30 r s'x/1' [ ] '!'").expect_nothing();
        c.send("a2 r k2 [ ] s'x/+'").expect("b0 r k2 [ ] 00");
        sender.send("30 r s'x/1' [ ] '!'").expect_nothing();
        c.expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.8.4-3] retained messages that are still to come obey the subscription that "
    "replaces theirs") {
    constexpr std::size_t messages = 50;
    constexpr std::size_t window = 10;
    Gateway gateway;
    auto sender = join(gateway, connect("sender"));
    for (std::size_t i = 0; i < messages; ++i)
        sender.send("33 r s'kept/" + std::to_string(i) + "' k1 [ ] '!'").expect("40 02 k1");
    sender.expect_nothing();
    for (const unsigned shard : {0u, 1u})
        for (const char* options : {"10", "20"}) {  // retain handling 1 and 2
            CAPTURE(options);
            auto c = join(gateway, connect(at_home(shard, "p"), "21 k" + std::to_string(window)));
            subscribe(c, "kept/+", "01", "0b 05");
            std::set<std::string> topics;
            const auto receive = [&](QoS qos, std::uint32_t identifier) {
                const auto packet = c.packet();
                const Publish message = published(packet, v5);
                CHECK(message.qos == qos);
                CHECK(message.properties.number(Property::subscription_identifier) == identifier);
                topics.emplace(message.topic);
                return message.packet_id;
            };
            std::vector<unsigned> unacknowledged;
            while (unacknowledged.size() < window)
                unacknowledged.push_back(receive(QoS::at_least_once, 5));
            subscribe(c, "kept/+", options, "0b 06");
            for (const unsigned id : unacknowledged) c.send("40 02 k" + std::to_string(id));
            while (topics.size() < messages) receive(QoS::at_most_once, 6);
            c.expect_nothing();
        }
}

TEST_CASE(
    "5.0 [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.8.4-7] [MQTT-3.9.3-1] [MQTT-3.9.3-2] SUBACK has a "
    "reason for each filter, in their order") {
    Gateway gateway([](Config& config) { config.max_topic_levels = 2; });
    auto c = join(gateway, connect("p", "17 00"));
    c.send("82 r k9 [ ] s'a' 02 s'b/c/d' 00 s'c' 00 s'a' 01 s'd//' 02 s'e' 01")
        .expect("90 r k9 [ ] 02 97 00 01 97 01");
    // As if each had come alone: the second to `a` replaced the first, and those that are refused
    // harmed none.
    auto sender = join(gateway, connect("sender"));
    publish_exactly_once(sender, "a");
    c.expect("32 r s'a' k1 [ ]");
    c.send("30 r s'c' [ ]").expect("30 r s'c' [ ]");
    c.send("32 r s'e' k2 [ ]").expect("32 r s'e' k2 [ ] | 40 02 k2").expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-3.8.4-8] a message arrives with the lower of its own QoS and the one granted") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto receiver = join(gateway, connect(at_home(shard, "receiver")));
        for (const int granted : {0, 1, 2})
            subscribe(receiver, "x/" + std::to_string(granted), "0" + std::to_string(granted));
        for (const int sent : {0, 1, 2})
            for (const int granted : {0, 1, 2}) {
                const auto first_byte = "3" + std::to_string(2 * sent);
                const auto topic = "s'x/" + std::to_string(granted) + "'";
                sender.send(first_byte + " r " + topic + (sent ? " k1" : "") + " [ ]");
                if (sent == 1) sender.expect("40 02 k1");
                if (sent == 2) sender.expect("50 02 k1").send("62 02 k1").expect("70 02 k1");
                const auto packet = receiver.packet();
                CHECK(static_cast<int>(published(packet, v5).qos) == std::min(sent, granted));
            }
        receiver.expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.9.2-1] [MQTT-3.11.2-1] SUBACK and UNSUBACK are no larger than the client takes") {
    Gateway gateway([](Config& config) { config.max_topic_levels = 2; });
    const auto told = [&](std::size_t limit) {
        auto c = join(gateway, connect("p", "17 01 27 w" + std::to_string(limit)));
        const auto packet = c.send("82 r k1 [ ] s'a/b/c' 00").packet();
        const auto suback = read_as<Suback>(packet);
        CHECK(suback.reasons == std::vector{Reason::quota_exceeded});
        const auto other = c.send("a2 r k1 [ ] s'x'").packet();
        CHECK(read_as<Unsuback>(other).reasons == std::vector{Reason::no_subscription_existed});
        CHECK(packet.size() <= limit);
        CHECK(other.size() <= limit);
        return std::pair(packet.size(),
                         suback.properties.text(Property::reason_string).has_value());
    };
    const auto [whole, has_text] = told(100'000);
    CHECK(has_text);
    CHECK(told(whole) == std::pair(whole, true));
    CHECK(!told(whole - 1).second);
    CHECK(told(20).first <= 20);
}

TEST_CASE("5.0 [MQTT-3.10.1-1] UNSUBSCRIBE with other flags than 0010 is malformed") {
    Gateway gateway;
    for (const char* first_byte : {"a0", "a1", "a3", "a6", "aa"})
        check_ends(gateway, std::string(first_byte) + " r k1 [ ] s'x'", Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.10.3-2] UNSUBSCRIBE without a filter is a protocol error") {
    Gateway gateway;
    check_ends(gateway, "a2 r k1 [ ]", Reason::protocol_error);
}

TEST_CASE(
    "5.0 [MQTT-3.10.4-1] [MQTT-3.10.4-2] UNSUBSCRIBE ends the subscription of just that filter") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto c = join(gateway, connect(at_home(shard, "p")));
        subscribe(c, "a/b", "00");
        const auto unsubscribe = [&](const char* filter, const char* reason) {
            c.send("a2 r k1 [ ] s'" + std::string(filter) + "'")
                .expect("b0 r k1 [ ] " + std::string(reason));
            sender.send("30 r s'a/b' [ ]").expect_nothing();
        };
        for (const char* other : {"a/+", "a/#", "a", "A/b", "a/b/", "/a/b"}) {
            unsubscribe(other, "11");
            c.expect("30 r s'a/b' [ ]").expect_nothing();
        }
        subscribe(c, "a/+", "00");
        unsubscribe("a/b", "00");
        c.expect("30 r s'a/b' [ ]").expect_nothing();  // by the other filter
        unsubscribe("a/+", "00");
        c.expect_nothing();
    }
}

TEST_CASE("5.0 [MQTT-3.10.4-3] what is on its way when UNSUBSCRIBE comes is delivered to the end") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "p");
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto c = join(gateway, connect(client, kept));
        subscribe(c, "x", "02");
        for (int i = 0; i < 2; ++i) publish_exactly_once(sender, "x");
        sender.send("32 r s'x' k3 [ ]").expect("40 02 k3");
        c.expect("34 r s'x' k1 [ ] | 34 r s'x' k2 [ ] | 32 r s'x' k3 [ ]");
        c.send("50 02 k1").expect("62 02 k1");
        c.send("a2 r k9 [ ] s'x'").expect("b0 r k9 [ ] 00");
        c.send("50 02 k2").expect("62 02 k2").send("70 02 k2").expect_nothing();
        vanish(c);
        auto again = resume(gateway, client);
        again.expect("62 02 k1 | 3a r s'x' k3 [ ]").send("70 02 k1 | 40 02 k3").expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-3.10.4-4] [MQTT-3.10.4-5] every UNSUBSCRIBE is answered, also where nothing ends") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    for (int id = 1; id <= 100; ++id) {
        const auto k = " k" + std::to_string(id);
        c.send("a2 r" + k + " [ ] s'x'").expect("b0 r" + k + " [ ] 11");
    }
}

TEST_CASE(
    "5.0 [MQTT-3.10.4-6] [MQTT-3.11.3-1] [MQTT-3.11.3-2] UNSUBACK has a reason for each filter, in "
    "their order") {
    Gateway gateway;
    auto c = join(gateway, connect("p", "17 00"));
    c.send("82 r k1 [ ] s'x' 00 s'y/+' 00 s'z' 00").expect("90 r k1 [ ] 00 00 00");
    c.send("a2 r k2 [ ] s'y/+' s'unknown' s'x' s'x'").expect("b0 r k2 [ ] 00 11 00 11");
    c.send("30 r s'x' [ ] | 30 r s'y/1' [ ] | 30 r s'z' [ ]").expect("30 r s'z' [ ]");
    c.expect_nothing();
}

TEST_CASE("5.0 [MQTT-3.12.4-1] every PINGREQ is answered") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    c.send("c000*100").expect("d000*100");
}
