#include <doctest/doctest.h>

#include <string>

#include "tests/support/gateway.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

TEST_CASE("SUBACK grants the QoS that was asked for") {
    Gateway gateway;
    Conversation(gateway)
        .login("p")
        .send("82 r k9 s'a' 00 s'b' 01 s'c' 02")
        .expect("90 05 k9 00 01 02");
    Conversation(gateway)
        .login("q", v5)
        .send("82 r k9 [ ] s'a' 00 s'b' 01 s'c' 02")
        .expect("90 r k9 [ ] 00 01 02");
}

TEST_CASE("a filter that is refused does not spoil the others of its SUBSCRIBE") {
    Gateway gateway([](Config& config) {
        config.shared_subscriptions = false;
        config.max_topic_levels = 3;
    });
    Conversation newer(gateway);
    newer.send("10 r s'MQTT' 05 02 k10 [ ] s'p'")
        .expect("20 r 00 00 [ 21 k256 27 w262144 22 k16 2a 00 ]")
        .send("82 r k9 [ ] s'good' 01 s'$share/g/x' 00 s'a/b/c/d' 00")
        .expect("90 r k9 [ ] 01 9e 97");
    newer.send("30 r s'good' [ ] '!'").expect("30 r s'good' [ ] '!'");
    Conversation older(gateway);
    older.login("q")
        .send("82 r k9 s'a/b/c/d' 00 s'good' 01 s'$share/g/x' 00")
        .expect("90 05 k9 80 01 80");
    older.send("30 r s'good' '!'").expect("30 r s'good' '!'");
}

TEST_CASE("a filter that is malformed costs the connection") {
    Gateway gateway;
    for (const char* packet : {"82 r k1 [ ] s'good' 00 s'a/#/b' 00", "82 r k1 [ ] s'' 00",
                               "82 r k1 [ ] s'$share/g' 00", "a2 r k1 [ ] s'good' s'a#'"}) {
        CAPTURE(packet);
        Conversation c(gateway);
        c.login("p", v5).send(packet).expect_close(Reason::malformed_packet);
    }
    for (const char* packet : {"82 r k1 s'good' 00 s'a+' 00", "82 r k1 s'' 00", "a2 r k1 s'a#'"}) {
        CAPTURE(packet);
        Conversation c(gateway);
        c.login("q").send(packet).expect_close();
    }
    CHECK(gateway.has_logged("UNSUBSCRIBE: a topic filter is malformed"));
}

TEST_CASE("a malformed shared subscription is refused in 3.1.1, and harms no other filter") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p")
        .send("82 r k1 s'$share/g' 00 s'$share//x' 00 s'$share/+/x' 00 s'good' 00")
        .expect("90 06 k1 80 80 80 00")
        .send("a2 r k2 s'$share/g'")
        .expect("b0 02 k2");
}

TEST_CASE("a filter of too many levels is refused") {
    Gateway gateway([](Config& config) { config.max_topic_levels = 32; });
    Conversation c(gateway);
    c.login("p", v5)
        .send("82 r k1 [ ] s'" + std::string(31, '/') + "' 00 | 82 r k2 [ ] s'" +
              std::string(32, '/') + "' 00")
        .expect("90 r k1 [ ] 00 | 90 r k2 [ ] 97");
}

TEST_CASE("wildcards select as the standard says, across shards") {
    Gateway gateway;
    Conversation sender(gateway);
    Conversation receiver(gateway);
    sender.login(at_home(0, "sender"));
    receiver.login(at_home(1, "receiver"));
    const auto select = [&](const std::string& filter, const std::string& topics) {
        receiver.send("82 r k1 s'" + filter + "' 00").expect("90 03 k1 00");
        sender.send(topics).expect_nothing();
        return [&receiver, filter](const std::string& expected) {
            receiver.expect(expected).expect_nothing();
            receiver.send("a2 r k2 s'" + filter + "'").expect("b0 02 k2");
        };
    };
    select("a/+",
           "30 r s'a' | 30 r s'a/' | 30 r s'a/b' | 30 r s'a/b/c'")("30 r s'a/' | 30 r s'a/b'");
    select("a/#", "30 r s'a' | 30 r s'a/' | 30 r s'a/b/c' | 30 r s'b'")(
        "30 r s'a' | 30 r s'a/' | 30 r s'a/b/c'");
    select("+/b/#", "30 r s'a/b' | 30 r s'/b' | 30 r s'a/c'")("30 r s'a/b' | 30 r s'/b'");
    select("+", "30 r s'a' | 30 r s'/' | 30 r s'b'")("30 r s'a' | 30 r s'b'");
}

TEST_CASE("a second subscription to the same filter replaces the first") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p", v5)
        .send("82 r k1 [ 0b 05 ] s'x' 01 | 82 r k2 [ 0b 06 ] s'x' 00")
        .expect("90 r k1 [ ] 01 | 90 r k2 [ ] 00");
    c.send("32 r s'x' k1 [ ] '!'").expect("30 r s'x' [ 0b 06 ] '!' | 40 02 k1").expect_nothing();
}

TEST_CASE("after UNSUBSCRIBE nothing more comes") {
    Gateway gateway;
    Conversation older(gateway);
    older.login("p").send("82 r k1 s'x' 00 s'y' 00").expect("90 04 k1 00 00");
    older.send("a2 r k2 s'x' s'unknown'").expect("b0 02 k2");
    older.send("30 r s'x' '!' | 30 r s'y' '!'").expect("30 r s'y' '!'").expect_nothing();
}

TEST_CASE("UNSUBACK of 5.0 says for each filter whether there was a subscription") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p", v5).send("82 r k1 [ ] s'x' 00 s'y/+' 00").expect("90 r k1 [ ] 00 00");
    c.send("a2 r k2 [ ] s'y/+' s'unknown' s'x' s'x'").expect("b0 r k2 [ ] 00 11 00 11");
}

TEST_CASE("a subscription ends with its connection") {
    Gateway gateway;
    const auto name = at_home(0, "alice");
    Conversation(gateway)
        .login(name)
        .send("82 r k1 s'x' 00")
        .expect("90 03 k1 00")
        .send("e0 00")
        .expect_close();
    Conversation c(gateway);
    c.login(name).send("30 r s'x' '!'").expect_nothing();
}

TEST_CASE("a client has no more subscriptions than the limit, but may renew those it has") {
    Gateway gateway([](Config& config) { config.max_subscriptions = 2; });
    Conversation c(gateway);
    c.login("p", v5)
        .send("82 r k1 [ ] s'a' 00 s'b' 00 s'c' 00 s'a' 01")
        .expect("90 r k1 [ ] 00 00 97 01");
    c.send("a2 r k2 [ ] s'b'").expect("b0 r k2 [ ] 00");
    c.send("82 r k3 [ ] s'c' 00").expect("90 r k3 [ ] 00");
}

TEST_CASE("ten thousand subscriptions of one client come and go") {
    Gateway gateway([](Config& config) {
        config.max_subscriptions = 10'000;
        config.max_client_memory = 15 << 20;
    });
    Conversation c(gateway);
    c.login("p");
    std::string subscribe;
    std::string unsubscribe;
    std::string granted;
    std::string gone;
    for (int i = 0; i < 10'000; ++i) {
        const auto filter = " s'room/" + std::to_string(i) + (i % 2 ? "/+'" : "'");
        const auto id = "k" + std::to_string(i + 1);
        subscribe += wire("82 r " + id + filter + " 00");
        granted += (i ? " | 90 03 " : "90 03 ") + id + " 00";
        unsubscribe += wire("a2 r " + id + filter);
        gone += (i ? " | b0 02 " : "b0 02 ") + id;
    }
    c.send_bytes(subscribe).expect(granted);
    c.send("30 r s'room/9998' 'even' | 30 r s'room/9999/x' 'odd'")
        .expect("30 r s'room/9998' 'even' | 30 r s'room/9999/x' 'odd'");
    c.send_bytes(unsubscribe).expect(gone);
    c.send("30 r s'room/9998' 'even' | 30 r s'room/9999/x' 'odd'").expect_nothing();
}

TEST_CASE("a member of a shared subscription gets what is published after the SUBACK") {
    Gateway gateway([](Config& config) { config.shards = 4; });
    Conversation sender(gateway);
    Conversation member(gateway);
    sender.login("sender");
    member.login("member");
    // The groups are on all shards, and messages to them may wait in the mailboxes for a while.
    for (int round = 0; round < 1000; ++round) {
        const auto topic = "'t" + std::to_string(round) + "'";
        member.send("82 r k1 s'$share/g/t" + std::to_string(round) + "' 00").expect("90 03 k1 00");
        sender.send("32 r s" + topic + " k1 'm'").expect("40 02 k1");
        member.expect("30 r s" + topic + " 'm'");
    }
}
