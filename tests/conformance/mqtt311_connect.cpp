#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/conformance/mqtt311.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;
using namespace pulsegate::mqtt311;

namespace {

/// A connection that begins with this is closed without a CONNACK.
void check_no_connack(const Gateway& gateway, const std::string& connect) {
    CAPTURE(connect);
    Conversation(gateway).send(connect).expect_close();
}

}  // namespace

TEST_CASE("3.1.1 [MQTT-3.1.0-1] a first packet that is no CONNECT closes the connection") {
    Gateway gateway;
    for (const std::string first :
         {"20 02 00 00", "30 r s'x' 'hi'", "32 r s'x' k1 'hi'", "40 02 k1", "50 02 k1", "62 02 k1",
          "70 02 k1", "82 r k1 s'x' 00", "90 03 k1 00", "a2 r k1 s'x'", "b0 02 k1", "c0 00",
          "d0 00", "e0 00", "f0 00", "00 00"})
        check_no_connack(gateway, first + " | 10 r s'MQTT' 04 02 k10 s'p'");
}

TEST_CASE("3.1.1 [MQTT-3.1.0-2] a second CONNECT closes the connection") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        const auto connect = "10 r s'MQTT' 04 02 k10 s'" + name + "'";
        clean_session(gateway, name).send(connect).expect_close();
        clean_session(gateway, name).send("10 r s'MQTT' 04 02 k10 s'other'").expect_close();
        Conversation(gateway).send(connect + " | " + connect).expect("20 02 00 00").expect_close();
    }
}

TEST_CASE("3.1.1 [MQTT-3.1.2-1] a CONNECT of another protocol's name has no effect") {
    Gateway gateway;
    auto watcher = clean_session(gateway, "watcher");
    subscribe(watcher, "will", 0);
    for (const std::string name : {"s'mqtt'", "s'MQTTS'", "s'MQT'", "s'HTTP'", "s''"})
        check_no_connack(gateway,
                         "10 r " + name + " 04 06 k10 s'p' s'will' s'gone' | 30 r s'will' 'no'");
    publish(watcher, 0, "other", "");
    watcher.expect_nothing();
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-2] [MQTT-3.2.2-5] an unknown protocol level is answered with return "
    "code 1 and the close") {
    Gateway gateway;
    for (const std::string level : {"00", "01", "02", "03"})
        Conversation(gateway)
            .send("10 r s'MQTT' " + level + " 02 k10 s'p'")
            .expect("20 02 00 01")
            .expect_close();
}

TEST_CASE("3.1.1 [MQTT-3.1.2-3] [MQTT-3.1.4-1] a reserved CONNECT flag closes the connection") {
    Gateway gateway;
    check_no_connack(gateway, "10 r s'MQTT' 04 03 k10 s'p'");
    check_no_connack(gateway, "10 r s'MQTT' 04 01 k10 s'p'");
    check_no_connack(gateway, "10 r s'MQTT' 04 07 k10 s'p' s'will' s'gone'");
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-18] [MQTT-3.1.2-19] [MQTT-3.1.2-20] [MQTT-3.1.2-21] user name and "
    "password are there if their flags say so, and only then") {
    Gateway gateway;
    const auto accepted = [&](const std::string& connect) {
        CAPTURE(connect);
        Conversation(gateway).send(connect).expect("20 02 00 00").expect_nothing();
    };
    accepted("10 r s'MQTT' 04 02 k10 s'p'");
    accepted("10 r s'MQTT' 04 82 k10 s'p' s'alice'");
    accepted("10 r s'MQTT' 04 c2 k10 s'p' s'alice' s'secret'");
    check_no_connack(gateway, "10 r s'MQTT' 04 02 k10 s'p' s'alice'");
    check_no_connack(gateway, "10 r s'MQTT' 04 82 k10 s'p'");
    check_no_connack(gateway, "10 r s'MQTT' 04 82 k10 s'p' s'alice' s'secret'");
    check_no_connack(gateway, "10 r s'MQTT' 04 c2 k10 s'p' s'alice'");
    check_no_connack(gateway, "10 r s'MQTT' 04 c2 k10 s'p'");
}

TEST_CASE("3.1.1 [MQTT-3.1.2-22] a password without a user name closes the connection") {
    Gateway gateway;
    check_no_connack(gateway, "10 r s'MQTT' 04 42 k10 s'p' s'secret'");
    check_no_connack(gateway, "10 r s'MQTT' 04 42 k10 s'p' s'alice' s'secret'");
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.2-24] silence for one and a half keepalives ends the connection as if "
    "the network had failed") {
    StoppedClock clock;
    Gateway gateway;
    auto watcher = clean_session(gateway, at_home(0, "watcher"));
    subscribe(watcher, "will", 0);
    Conversation c(gateway);
    c.send("10 r s'MQTT' 04 06 k1 s'" + at_home(1, "p") + "' s'will' s'gone'")
        .expect("20 02 00 00");
    gateway.pass(clock, 1000);
    c.expect_nothing();
    gateway.pass(clock, 1499);
    CHECK(c.silent());
    gateway.pass(clock, 1 + tick_length);
    c.expect_close();
    watcher.expect("30 r s'will' 'gone'").expect_nothing();
}

TEST_CASE("3.1.1 [MQTT-3.1.3-1] the payload of a CONNECT is read in the order of the standard") {
    Gateway gateway;
    auto watcher = clean_session(gateway, "watcher");
    subscribe(watcher, "will", 0);
    const auto connect = [&](const char* user) {
        Conversation c(gateway);
        c.send("10 r s'MQTT' 04 c6 k10 s'phone' s'will' s'gone' s'" + std::string(user) +
               "' s'secret'");
        c.expect("20 02 00 00");
        return c;
    };
    auto alice = connect("alice");
    auto stranger = connect("bob");
    alice.expect_nothing();
    // The same client id of the same user: only this one takes over.
    auto again = connect("alice");
    alice.expect_close();
    watcher.expect("30 r s'will' 'gone'").expect_nothing();
    stranger.expect_nothing();
}

TEST_CASE("3.1.1 [MQTT-3.1.3-2] each client id has a session of its own") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto phone = at_home(shard, "phone");
        const auto desk = at_home(shard, "desk");
        auto sender = clean_session(gateway, "sender");
        for (const auto& name : {phone, desk}) {
            auto c = new_session(gateway, name);
            subscribe(c, "to/" + name, 1);
            leave(c);
        }
        publish(sender, 1, "to/" + phone, "for the phone");
        publish(sender, 1, "to/" + desk, "for the desk");
        kept_session(gateway, desk).expect("32 r s'to/" + desk + "' k1 'for the desk'");
        kept_session(gateway, phone).expect("32 r s'to/" + phone + "' k1 'for the phone'");
    }
}

TEST_CASE("3.1.1 [MQTT-3.1.3-3] a CONNECT without a client id closes the connection") {
    Gateway gateway;
    check_no_connack(gateway, "10 r s'MQTT' 04 02 k10");
    check_no_connack(gateway, "10 r s'MQTT' 04 02 k10 00");
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.3-4] [MQTT-3.1.3-10] [MQTT-3.1.3-11] client id, will topic and user name "
    "that are not UTF-8 close the connection") {
    Gateway gateway;
    for (const std::string text : {"s3 'a' c328", "s3 eda080", "s3 'a' 00 'b'"}) {
        check_no_connack(gateway, "10 r s'MQTT' 04 02 k10 " + text);
        check_no_connack(gateway, "10 r s'MQTT' 04 06 k10 s'p' " + text + " s'gone'");
        check_no_connack(gateway, "10 r s'MQTT' 04 82 k10 s'p' " + text);
    }
}

TEST_CASE("3.1.1 [MQTT-3.1.3-5] client ids of 1 to 23 letters and digits are accepted") {
    Gateway gateway;
    const std::string all = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (std::size_t size = 1; size <= 23; ++size)
        for (std::size_t begin = 0; begin + size <= all.size(); begin += size)
            clean_session(gateway, all.substr(begin, size)).expect_nothing();
}

TEST_CASE("3.1.1 [MQTT-3.1.3-6] clients without a client id are told apart") {
    Gateway gateway;
    std::vector<Conversation> clients;
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back(gateway);
        clients.back().send("10 r s'MQTT' 04 02 k10 s''").expect("20 02 00 00");
    }
    subscribe(clients[3], "x", 0);
    publish(clients[4], 0, "x", "hi");
    clients[3].expect("30 r s'x' 'hi'");
    for (auto& c : clients) c.expect_nothing();
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.3-8] [MQTT-3.1.3-9] an empty client id with CleanSession 0 is answered "
    "with return code 2 and the close") {
    Gateway gateway;
    Conversation(gateway).send("10 r s'MQTT' 04 00 k10 s''").expect("20 02 00 02").expect_close();
    Conversation(gateway)
        .send("10 r s'MQTT' 04 80 k10 s'' s'alice'")
        .expect("20 02 00 02")
        .expect_close();
}

TEST_CASE(
    "3.1.1 [MQTT-3.1.4-1] [MQTT-3.2.2-6] a CONNECT against the rules is closed without a "
    "CONNACK") {
    Gateway gateway;
    for (const std::string connect :
         {"10 00", "10 r s'MQTT'", "10 r s'MQTT' 04", "10 r s'MQTT' 04 02", "10 r s'MQTT' 04 02 00",
          "10 r s9 'MQTT' 04 02 k10 s'p'", "10 r s'MQTT' 04 02 k10 s2 'p'",
          "10 r s'MQTT' 04 02 k10 s'p' 00", "10 r s'MQTT' 04 06 k10 s'p' s'will'",
          "10 r s'MQTT' 04 06 k10 s'p' s'will' s5 'gone'",
          "10 r s'MQTT' 04 06 k10 s'p' s'a/#' s'gone'", "10 r s'MQTT' 04 06 k10 s'p' s'' s'gone'",
          "10 ff ff ff ff 7f"})
        check_no_connack(gateway, connect);
}

TEST_CASE("3.1.1 [MQTT-3.1.4-2] a client that connects again puts its older connection out") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (int i = 0; i < 8; ++i) {  // the kernel chooses the shard that accepts
            const auto name = at_home(shard, "p");
            auto first = i % 2 ? clean_session(gateway, name) : new_session(gateway, name);
            Conversation second(gateway);
            second.send("10 r s'MQTT' 04 02 k10 s'" + name + "'").expect("20 02 00 00");
            first.expect_close();
            second.expect_nothing();
        }
}

TEST_CASE("3.1.1 [MQTT-3.1.4-4] a CONNECT that is accepted is answered with return code 0") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        Conversation(gateway)
            .send("10 r s'MQTT' 04 02 k10 s'" + name + "'")
            .expect("20 02 00 00")
            .expect_nothing();
        Conversation(gateway)
            .send("10 r s'MQTT' 04 00 k10 s'" + name + "'")
            .expect("20 02 00 00")
            .expect_nothing();
    }
}

TEST_CASE("3.1.1 [MQTT-3.1.4-5] nothing after a CONNECT that is refused has an effect") {
    Gateway gateway;
    auto watcher = clean_session(gateway, "watcher");
    subscribe(watcher, "x", 0);
    const std::string more = " | 30 r s'x' 'no' | 82 r k1 s'y' 00 | c0 00";
    Conversation(gateway)
        .send("10 r s'MQTT' 04 00 k10 s''" + more)
        .expect("20 02 00 02")
        .expect_close();
    Conversation(gateway)
        .send("10 r s'MQTT' 03 02 k10 s'p'" + more)
        .expect("20 02 00 01")
        .expect_close();
    auto sender = clean_session(gateway, "sender");
    publish(sender, 0, "x", "the first");
    watcher.expect("30 r s'x' 'the first'").expect_nothing();
}

TEST_CASE("3.1.1 [MQTT-3.2.0-1] the first packet to a client is the CONNACK, whatever waits") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto c = new_session(gateway, name);
        subscribe(c, "x", 1);
        leave(c);
        auto sender = clean_session(gateway, "sender");
        publish(sender, 1, "x", "waited");
        Conversation(gateway)
            .send("10 r s'MQTT' 04 00 k10 s'" + name + "' | c0 00")
            .expect("20 02 01 00 | 32 r s'x' k1 'waited' | d0 00");
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.2.2-1] [MQTT-3.1.4-3] with CleanSession 1 there is never a session "
    "present") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto first = new_session(gateway, name);
        leave(first);
        auto second = clean_session(gateway, name);  // away
        leave(second);
        auto third = new_session(gateway, name);
        auto fourth = clean_session(gateway, name);  // connected
        third.expect_close();
        fourth.expect_nothing();
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.2.2-2] [MQTT-3.2.2-3] [MQTT-3.1.4-3] Session Present says whether a "
    "session was kept") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto first = new_session(gateway, name);
        leave(first);
        auto second = kept_session(gateway, name);
        auto third = kept_session(gateway, name);  // from the connection that is still there
        second.expect_close();
        leave(third);
        auto clean = clean_session(gateway, name);
        leave(clean);
        auto last = new_session(gateway, name);  // the clean one left nothing
        leave(last);
    }
}

TEST_CASE(
    "3.1.1 [MQTT-3.2.2-4] [MQTT-3.2.2-5] a client that is refused is told of no session and is "
    "closed, even if one is kept") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "p");
        auto first = new_session(gateway, name);
        leave(first);
        Conversation(gateway)
            .send("10 r s'MQTT' 04 04 k10 s'" + name + "' s'presence/x' s'gone'")
            .expect("20 02 00 05")
            .expect_close();
        Conversation(gateway)
            .send("10 r s'MQTT' 03 00 k10 s'" + name + "'")
            .expect("20 02 00 01")
            .expect_close();
        kept_session(gateway, name).expect_nothing();
    }
}
