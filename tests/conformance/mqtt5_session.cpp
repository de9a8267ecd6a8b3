// MQTT 5.0, sections 4.1 to 4.6: session state, QoS, what is sent again, and order.

#include <set>

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

TEST_CASE(
    "5.0 [MQTT-4.1.0-1] [MQTT-4.1.0-2] a session is kept while its client is there, and for its "
    "expiry after that") {
    StoppedClock clock;
    Gateway gateway;
    const auto outlasts = [&](const std::string& client, const std::string& goodbye, Millis here,
                              Millis away) {
        auto c = join(gateway, connect(client, "11 w1"));
        subscribe(c, "x", "01");
        gateway.pass(clock, here);
        if (!goodbye.empty()) c.send(goodbye);
        vanish(c);
        gateway.pass(clock, away);
        return log_in(gateway, connect(client, "", "00")).second;
    };
    CHECK(outlasts(at_home(0, "a"), "", 2000, 1000));
    CHECK(outlasts(at_home(1, "b"), "e0 00", 2000, 1000));
    CHECK(!outlasts(at_home(0, "c"), "", 0, 1000 + tick_length));
    CHECK(!outlasts(at_home(1, "d"), "e0 00", 0, 1000 + tick_length));
    CHECK(outlasts(at_home(0, "e"), "e0 r 00 [ 11 w60 ]", 0, 1000 + tick_length));
}

TEST_CASE(
    "5.0 [MQTT-4.1.0-2] coming back in time makes a session last, and its expiry begins anew") {
    StoppedClock clock;
    Gateway gateway;
    auto first = join(gateway, connect("p", "11 w1"));
    leave(first);
    gateway.pass(clock, 1000);
    auto second = resume(gateway, "p", "11 w1");
    gateway.pass(clock, 2000);
    leave(second);
    gateway.pass(clock, 1000);
    auto third = resume(gateway, "p", kept);
    leave(third);
}

TEST_CASE("5.0 [MQTT-4.2.0-1] TCP carries packets of any length in any pieces, both ways") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    subscribe(c, "x", "00");
    std::string stream;
    for (const int size : {0, 1, 1000, 100'000, 200'000, 3})
        stream += wire("30 r s'x' [ ] 'y'*" + std::to_string(size));
    at_once({[&] {
                 for (std::size_t at = 0; at < stream.size(); at += 4'999)
                     c.send_bytes(std::string_view(stream).substr(at, 4'999));
             },
             [&] {
                 std::string got;
                 for (int i = 0; i < 6; ++i) got += c.packet();
                 CHECK((got == stream));
             }});
}

TEST_CASE(
    "5.0 [MQTT-4.3.2-2] [MQTT-4.3.2-3] a message at QoS 1 goes out without DUP and is kept until "
    "its PUBACK") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto first = join(gateway, connect(client, kept));
        subscribe(first, "x", "01");
        for (const char* payload : {"1", "2", "3"})
            sender.send("32 r s'x' k1 [ ] '" + std::string(payload) + "'").expect("40 02 k1");
        first.expect("32 r s'x' k1 [ ] '1' | 32 r s'x' k2 [ ] '2' | 32 r s'x' k3 [ ] '3'");
        first.send("40 02 k2").expect_nothing();
        vanish(first);
        auto second = resume(gateway, client);
        second.expect("3a r s'x' k1 [ ] '1' | 3a r s'x' k3 [ ] '3'").expect_nothing();
        second.send("40 02 k1 | 40 02 k3").expect_nothing();
        vanish(second);
        resume(gateway, client).expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-4.3.2-5] after its PUBACK an identifier stands for a new message, whatever its "
    "DUP") {
    Gateway gateway;
    auto c = join(gateway, connect("p"));
    subscribe(c, "x", "00");
    for (const char* first_byte : {"32", "3a", "32"})
        c.send(std::string(first_byte) + " r s'x' k1 [ ] '!'")
            .expect("30 r s'x' [ ] '!' | 40 02 k1");
    c.expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-4.3.3-2] [MQTT-4.3.3-3] [MQTT-4.3.3-5] [MQTT-4.3.3-6] [MQTT-4.4.0-1] a message at "
    "QoS 2 is kept until PUBREC, its PUBREL until PUBCOMP") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto sender = join(gateway, connect(at_home(0, "sender")));
        auto first = join(gateway, connect(client, kept));
        subscribe(first, "x", "02");
        for (const char* payload : {"1", "2", "3"}) publish_exactly_once(sender, "x", payload);
        first.expect("34 r s'x' k1 [ ] '1' | 34 r s'x' k2 [ ] '2' | 34 r s'x' k3 [ ] '3'");
        first.send("50 02 k2").expect("62 02 k2").expect_nothing();
        vanish(first);

        auto second = resume(gateway, client);
        second.expect("62 02 k2 | 3c r s'x' k1 [ ] '1' | 3c r s'x' k3 [ ] '3'").expect_nothing();
        second.send("50 02 k1").expect("62 02 k1");
        vanish(second);

        auto third = resume(gateway, client);
        const auto one = third.packet();
        const auto other = third.packet();
        CHECK(std::set{one, other} == std::set{wire("62 02 k1"), wire("62 02 k2")});
        third.expect("3c r s'x' k3 [ ] '3'").expect_nothing();
        third.send("70 02 k2 | 70 02 k1 | 50 02 k3").expect("62 02 k3").send("70 02 k3");
        third.expect_nothing();
        vanish(third);
        resume(gateway, client).expect_nothing();
    }
}

TEST_CASE("5.0 [MQTT-4.3.3-4] PUBREC is answered with PUBREL, unless it refuses") {
    Gateway gateway;
    auto sender = join(gateway, connect("sender"));
    auto c = join(gateway, connect("p"));
    subscribe(c, "x", "02");
    for (const char* id : {"k1", "k2", "k3"}) {
        publish_exactly_once(sender, "x");
        c.expect("34 r s'x' " + std::string(id) + " [ ]");
    }
    c.send("50 02 k2").expect("62 02 k2");
    c.send("50 03 k3 00").expect("62 02 k3");
    c.send("50 03 k1 97").expect_nothing();
}

TEST_CASE("5.0 [MQTT-4.3.3-7] [MQTT-4.3.3-13] a message's expiry does not touch what has begun") {
    StoppedClock clock;
    Gateway gateway;
    auto sender = join(gateway, connect("bob"));
    sender.send("34 r s'y' k9 [ 02 w1 ]").expect("50 02 k9");
    auto receiver = join(gateway, connect("alice", kept));
    subscribe(receiver, "x", "02");
    for (const char* payload : {"1", "2"})
        receiver.send("34 r s'x' k9 [ 02 w1 ] '" + std::string(payload) + "' | 62 02 k9");
    std::string order;
    for (int i = 0; i < 6; ++i) {
        const auto packet = receiver.packet();
        if ((packet.front() & 0xF0) == 0x30) order += published(packet, v5).payload;
    }
    CHECK(order == "12");
    receiver.send("50 02 k1").expect("62 02 k1");
    vanish(receiver);
    gateway.pass(clock, 2000);

    sender.send("3c r s'y' k9 [ 02 w1 ]").expect("50 02 k9").send("62 02 k9").expect("70 02 k9");
    auto again = resume(gateway, "alice");
    again.expect("62 02 k1");
    const auto packet = again.packet();
    const Publish message = published(packet, v5);
    CHECK(message.dup);
    CHECK(message.packet_id == 2);
    CHECK(message.payload == "2");
    again.send("70 02 k1 | 50 02 k2").expect("62 02 k2").send("70 02 k2").expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-4.3.3-9] after a PUBREC that refused, its identifier stands for a new message") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "x", "00");
    auto c = join(gateway, connect("p"));
    const auto refused = c.send("34 r s'$x' k1 [ ] '!'").packet();
    CHECK(read_as<Pubrec>(refused).reason == Reason::not_authorized);
    publish_exactly_once(c, "x", "!");
    watcher.expect("30 r s'x' [ ] '!'").expect_nothing();
}

TEST_CASE("5.0 [MQTT-4.3.3-10] until its PUBREL a message at QoS 2 is not delivered twice") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "sender");
        auto watcher = join(gateway, connect(at_home(1, "watcher")));
        subscribe(watcher, "x", "00");
        auto c = join(gateway, connect(client, kept));
        c.send("34 r s'x' k1 [ ] '!' | 3c r s'x' k1 [ ] '!' | 34 r s'x' k1 [ ] '?'");
        c.expect("50 02 k1 | 50 02 k1 | 50 02 k1").expect_nothing();
        vanish(c);
        auto again = resume(gateway, client);  // the session remembers
        again.send("3c r s'x' k1 [ ] '!'").expect("50 02 k1");
        again.send("62 02 k1").expect("70 02 k1");
        watcher.expect("30 r s'x' [ ] '!'").expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-4.3.3-11] [MQTT-4.3.3-12] after its PUBCOMP an identifier stands for a new "
    "message") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "x", "00");
    auto c = join(gateway, connect("p"));
    for (const char* first_byte : {"34", "3c", "34"}) {
        c.send(std::string(first_byte) + " r s'x' k1 [ ] '!'").expect("50 02 k1");
        c.send("62 02 k1").expect("70 02 k1");
        watcher.expect("30 r s'x' [ ] '!'").expect_nothing();
    }
}

TEST_CASE("5.0 [MQTT-4.4.0-1] nothing is sent again on the same connection") {
    StoppedClock clock;
    Gateway gateway;
    auto sender = join(gateway, connect("sender"));
    auto c = join(gateway, connect("p"));
    subscribe(c, "x", "02");
    sender.send("32 r s'x' k1 [ ]").expect("40 02 k1");
    publish_exactly_once(sender, "x");
    c.expect("32 r s'x' k1 [ ] | 34 r s'x' k2 [ ]");
    gateway.pass(clock, 10'000);
    c.expect_nothing();
}

TEST_CASE("5.0 [MQTT-4.4.0-2] what was refused by PUBACK or PUBREC is not sent again") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto c = join(gateway, connect(client, kept));
        auto sender = join(gateway, connect("sender"));
        subscribe(c, "x", "02");
        sender.send("32 r s'x' k1 [ ]").expect("40 02 k1");
        publish_exactly_once(sender, "x", "two");
        c.expect("32 r s'x' k1 [ ] | 34 r s'x' k2 [ ] 'two'");
        c.send("40 03 k1 97 | 50 03 k2 97").expect_nothing();
        vanish(c);
        resume(gateway, client).expect_nothing();
    }
}

TEST_CASE("5.0 [MQTT-4.5.0-1] a message goes to every session that wants it, there or away") {
    Gateway gateway;
    std::vector<std::string> away;
    std::vector<Conversation> there;
    for (const unsigned shard : {0u, 1u}) {
        away.push_back(at_home(shard, "away"));
        auto c = join(gateway, connect(away.back(), kept));
        subscribe(c, "x/+", "02");
        leave(c);
        there.push_back(join(gateway, connect(at_home(shard, "there"))));
        subscribe(there.back(), "x/#", "01");
    }
    auto sender = join(gateway, connect("sender"));
    sender.send("30 r s'x/0' [ ] | 32 r s'x/1' k1 [ ]").expect("40 02 k1");
    publish_exactly_once(sender, "x/2");
    for (auto& c : there)
        c.expect("30 r s'x/0' [ ] | 32 r s'x/1' k1 [ ] | 32 r s'x/2' k2 [ ]").expect_nothing();
    // QoS 0 does not wait.
    for (const auto& client : away)
        resume(gateway, client).expect("32 r s'x/1' k1 [ ] | 34 r s'x/2' k2 [ ]").expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-4.6.0-5] [MQTT-4.6.0-6] a publisher's messages arrive in their order, live and "
    "after a return") {
    constexpr int messages = 400;
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto c = join(gateway, connect(client, kept + " 21 k10"));
        subscribe(c, "n", "02");
        auto sender = join(gateway, connect(at_home(0, "sender")));
        const auto publish = [&](int from, int to) {
            for (int i = from; i < to; ++i)
                sender.send("32 r s'n' k1 [ ] '" + std::to_string(i) + "'").expect("40 02 k1");
        };
        int next = 0;
        const auto take = [&](Conversation& from, int count) {
            for (int i = 0; i < count; ++i) {
                const auto packet = from.packet();
                const Publish message = published(packet, v5);
                REQUIRE(message.payload == std::to_string(next));
                ++next;
                from.send("40 02 k" + std::to_string(message.packet_id));
            }
        };
        publish(0, messages / 2);
        take(c, 50);
        c.expect("32 r s'n' k51 [ ] '50' | 32 r s'n' k52 [ ] '51'");  // left unacknowledged
        vanish(c);
        publish(messages / 2, messages);
        auto again = resume(gateway, client, kept + " 21 k10");
        take(again, messages - 50);
        again.expect_nothing();
    }
}
