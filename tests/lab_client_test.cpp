#include "tests/support/lab_client.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "loadgen/client/identities.h"
#include "tests/support/sanitized.h"

namespace pulsegate {

using load::Clock;
using load::Ending;
using load::MqttClient;
using load::Stage;
using load::Time;

// -- logging in --

TEST_CASE("a client of 3.1.1 logs in") {
    Talk talk;
    CHECK(hex(talk.connect()) == hex(wire("10 r s'MQTT' 04 02 k20 s'7'")));
    talk.send("20 r 00 00", {"connected"});
    CHECK(talk.client.stage() == Stage::online);
    CHECK(talk.client.connections() == 1);
    CHECK(talk.client.before_send() >= talk.client.tcp_connected_at());
    CHECK(talk.host.traffic.packets_sent == 1);
    CHECK(talk.host.traffic.packets_received == 1);
}

TEST_CASE("a client of 5.0 asks for its session to be kept, and takes the server's keepalive") {
    Talk talk(Version::v5_0, true);
    talk.profile.receive_maximum = 5;
    talk.profile.session_expiry = std::chrono::seconds(60);
    CHECK(hex(talk.connect()) == hex(wire("10 r s'MQTT' 05 00 k20 [ 11 w60 21 k5 ] s'7'")));
    talk.send("20 r 01 00 [ 13 k33 ]", {"resumed"});
    CHECK(talk.client.keepalive() == 33);
}

TEST_CASE("a client has the identity of its number") {
    Talk talk;
    load::Identities identities({.client_id = "lab-{n}", .user = "user{n}", .password = "pass{n}"});
    talk.profile.identities = &identities;
    CHECK(hex(talk.connect()) == hex(wire("10 r s'MQTT' 04 c2 k20 s'lab-7' s'user7' s'pass7'")));
}

TEST_CASE("the owner may change the CONNECT, such as by a will") {
    Talk talk(Version::v5_0);
    PropertyList delay;
    delay.add(Property::will_delay_interval, 3);
    talk.diary.on_login = [&](Connect& packet) {
        packet.client_id = "me";
        packet.will = Will{
            .topic = "t", .payload = "gone", .qos = QoS::exactly_once, .properties = delay.view()};
    };
    CHECK(hex(talk.connect()) ==
          hex(wire("10 r s'MQTT' 05 16 k20 [ ] s'me' [ 18 w3 ] s't' s'gone'")));
}

TEST_CASE("a refused login is told with its reason") {
    Talk talk(Version::v5_0);
    talk.connect();
    talk.send("20 r 00 89 [ ]", {"closed: refused: server busy"});
    CHECK(talk.diary.by == Ending::By::refusal);
    CHECK(talk.diary.stage == Stage::logging_in);
}

TEST_CASE("a server that closes before its CONNACK has closed a client that was logging in") {
    Talk talk;
    talk.connect();
    talk.vanish();
    CHECK(talk.diary.lines == Lines{"closed: closed by the server"});
    CHECK(talk.diary.by == Ending::By::close);
    CHECK(talk.diary.stage == Stage::logging_in);
}

TEST_CASE("a client can be opened without a login, and send what it likes") {
    Talk talk;
    talk.client.open(Clock::now());
    REQUIRE(talk.run.until([&] { return talk.client.stage() == Stage::open; }));
    talk.connections.push_back(talk.peer.accept());
    talk.expect_nothing();
    for (const char byte : talk.client.connect_packet()) talk.client.send_raw({&byte, 1});
    talk.expect("10 r s'MQTT' 04 02 k20 s'7'");
    talk.send("20 r 00 00 | 40 r k9 | d0 r", {"connected"});  // and answers to what it never sent
    CHECK(talk.client.stage() == Stage::online);
}

TEST_CASE("several filters are subscribed to at once, and the answer to each is told") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ ]");
    const SubscribeFilter filters[] = {{"a/b", {.qos = QoS::at_least_once}}, {"#", {}}};
    talk.client.subscribe(filters);
    talk.client.subscribe(std::span(filters).first(1));
    CHECK(talk.client.stage() == Stage::subscribing);
    talk.expect("82 r k1 [ ] s'a/b' 01 s'#' 00 | 82 r k2 [ ] s'a/b' 01");
    talk.send("90 r k1 [ ] 01 87", {"subscribed granted QoS 1 not authorized"});
    CHECK(talk.client.stage() == Stage::subscribing);
    talk.send("90 r k2 [ ] 00", {"subscribed from 2 success"});
    CHECK(talk.client.stage() == Stage::online);
}

// -- pings --

TEST_CASE("each ping has its own answer, also when several are under way") {
    Talk talk;
    talk.log_in();
    const Time first = Clock::now();
    talk.client.ping(first);
    talk.client.ping(Clock::now());
    CHECK(talk.client.oldest_ping() >= first);
    talk.expect("c0 r | c0 r");
    const Time oldest = talk.client.oldest_ping();
    talk.send("d0 r", {"pong"});
    CHECK(talk.client.oldest_ping() >= oldest);
    talk.send("d0 r", {"pong"});
    CHECK(talk.client.oldest_ping() == Time());
    talk.send("d0 r", {"closed: PINGRESP without a PINGREQ"});
    CHECK(talk.diary.by == Ending::By::violation);
}

TEST_CASE("a ping that was given up may be answered all the same, but only once") {
    Talk talk;
    talk.log_in();
    talk.client.ping(Clock::now());
    talk.client.give_up_ping();
    CHECK(talk.client.oldest_ping() == Time());
    CHECK(talk.client.gave_up_pings());
    const Time second = Clock::now();
    talk.client.ping(second);
    CHECK(talk.client.oldest_ping() >= second);
    talk.expect("c0 r | c0 r");
    talk.send("d0 r", {"pong"});
    CHECK(talk.client.oldest_ping() == Time());
    talk.send("d0 r", {});
    talk.send("d0 r", {"closed: PINGRESP without a PINGREQ"});
}

// -- messages of others --

TEST_CASE("messages are passed on and acknowledged") {
    Talk talk;
    talk.log_in();
    talk.send("30 r s'a' 'zero' | 32 r s'a' k5 'one' | 34 r s'a' k6 'two' | 62 r k6",
              {"received a=zero", "received a=one", "received a=two"});
    talk.expect("40 r k5 | 50 r k6 | 70 r k6");
    talk.expect_nothing();
}

TEST_CASE("an owner that acknowledges messages itself may do it later") {
    Talk talk;
    talk.profile.owner_acknowledges = true;
    talk.log_in();
    talk.send("32 r s'a' k5 'one' | 34 r s'a' k6 'two'", {"received a=one", "received a=two"});
    talk.expect_nothing();
    talk.client.acknowledge(QoS::at_least_once, 5);
    talk.client.acknowledge(QoS::exactly_once, 6);
    talk.expect("40 r k5 | 50 r k6");
    talk.vanish();
    talk.client.acknowledge(QoS::exactly_once, 6);
    CHECK(talk.client.stage() == Stage::away);
}

TEST_CASE("packets are read however they are split") {
    Talk talk;
    talk.log_in();
    talk.diary.lines.clear();
    for (const char byte : wire("32 r s'a' k5 'one' | d0 r")) {
        if (byte == '\xd0') talk.client.ping(Clock::now());
        talk.other().write({&byte, 1});
        talk.run.settle();
    }
    CHECK(talk.diary.lines == Lines{"received a=one", "pong"});
    talk.expect("40 r k5 | c0 r");
}

TEST_CASE(
    "a message of QoS 2 that comes again before its PUBREL is answered, and reported as repeated") {
    Talk talk;
    talk.log_in();
    talk.send("34 r s'a' k6 'two' | 3c r s'a' k6 'two'", {"received a=two", "again two"});
    talk.send("3c r s'a' k6 'three'", {"another three"});
    talk.expect("50 r k6 | 50 r k6 | 50 r k6");
    // Once released, the identifier stands for another message, and only its payload can tell
    // whether the server has repeated one.
    talk.send("62 r k6 | 3c r s'a' k6 'two'", {"received a=two"});
    talk.expect("70 r k6 | 50 r k6");
}

TEST_CASE("a PUBREL for no message is answered in 5.0 with the reason") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ ]");
    talk.send("62 r k9", {});
    talk.expect("70 r k9 92");
}

TEST_CASE("received messages of QoS 2 are remembered as long as the session is kept") {
    Talk talk(Version::v3_1_1, true);
    talk.log_in();
    talk.send("34 r s'a' k6 'two'", {"received a=two"});
    talk.vanish();
    talk.log_in("20 r 01 00");
    talk.send("3c r s'a' k6 'two'", {"again two"});
    talk.vanish();
    talk.log_in("20 r 00 00");  // gone
    talk.send("34 r s'a' k6 'two'", {"received a=two"});
}

TEST_CASE("a client that is closed by its owner while it receives reads no further") {
    Talk talk;
    talk.log_in();
    talk.diary.on_received = [](MqttClient& client) { client.close(); };
    talk.send("32 r s'a' k5 'one' | 32 r s'a' k6 'two'", {"received a=one"});
    CHECK(talk.client.stage() == Stage::away);
    CHECK(talk.other().read(1).empty());
}

TEST_CASE("a client may connect again while it receives") {
    Talk talk;
    talk.log_in();
    talk.diary.on_received = [](MqttClient& client) {
        client.reset();
        client.connect(Clock::now());
    };
    talk.send("32 r s'a' k5 'one' | 32 r s'a' k6 'two'", {"received a=one"});
    REQUIRE(talk.run.until([&] { return talk.client.stage() == Stage::logging_in; }));
    talk.connections.push_back(talk.peer.accept());
    talk.expect("10 r s'MQTT' 04 02 k20 s'7'");
    talk.expect_nothing();
}

// -- messages of its own --

TEST_CASE("messages of each QoS are sent and acknowledged") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ ]");
    CHECK(talk.publish("a", "zero", QoS::at_most_once, 10));
    CHECK(talk.publish("a", "one", QoS::at_least_once, 11));
    CHECK(talk.publish("a", "two", QoS::exactly_once, 12));
    CHECK(talk.client.in_flight() == 2);
    talk.expect("30 r s'a' [ ] 'zero' | 32 r s'a' k1 [ ] 'one' | 34 r s'a' k2 [ ] 'two'");
    talk.send("40 r k1 | 50 r k2", {"acknowledged 11 success"});
    CHECK(talk.diary.taken_over_tags == std::vector<std::uint64_t>{12});
    talk.expect("62 r k2");
    talk.send("70 r k2", {"acknowledged 12 success"});
    CHECK(talk.client.in_flight() == 0);
}

TEST_CASE("a second PUBREC on a connection is one that no message awaits") {
    Talk talk;
    talk.log_in();
    CHECK(talk.publish("a", "two", QoS::exactly_once, 12));
    talk.send("50 r k1 | 50 r k1",
              {"in doubt 12", "closed: PUBREC for packet identifier 1, which no message awaits"});
}

TEST_CASE("an acknowledgement that comes behind that of a later message is told") {
    Talk talk;
    talk.log_in();
    for (std::uint64_t tag = 1; tag <= 2; ++tag)
        CHECK(talk.publish("a", "one", QoS::at_least_once, tag));
    for (std::uint64_t tag = 3; tag <= 4; ++tag)
        CHECK(talk.publish("a", "two", QoS::exactly_once, tag));
    SUBCASE("none does, because each QoS has an order of its own") {
        talk.send("50 r k3 | 40 r k1 | 50 r k4 | 40 r k2 | 70 r k3 | 70 r k4",
                  {"acknowledged 1 success", "acknowledged 2 success", "acknowledged 3 success",
                   "acknowledged 4 success"});
    }
    SUBCASE("a PUBACK") {
        talk.send("40 r k2 | 40 r k1",
                  {"acknowledged 2 success", "overtaken 1", "acknowledged 1 success"});
    }
    SUBCASE("a PUBREC and a PUBCOMP") {
        talk.send(
            "50 r k4 | 50 r k3 | 70 r k4 | 70 r k3",
            {"overtaken 3", "acknowledged 4 success", "overtaken 3", "acknowledged 3 success"});
    }
}

TEST_CASE("a SUBACK belongs to the SUBSCRIBE with its packet identifier") {
    Talk talk;
    talk.log_in();
    const SubscribeFilter filters[] = {{"a", {.qos = QoS::exactly_once}},
                                       {"b", {.qos = QoS::exactly_once}},
                                       {"c", {.qos = QoS::exactly_once}}};
    talk.client.subscribe(std::span(filters).first(2));
    talk.client.subscribe(std::span(filters).last(1));
    talk.send("90 r k2 00 | 90 r k1 02 01",
              {"subscribed from 2 success", "subscribed granted QoS 2 granted QoS 1"});
}

TEST_CASE("a message is sent with RETAIN and the properties that it has") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ ]");
    PropertyList expiry;
    expiry.add(Property::message_expiry_interval, 7);
    CHECK(talk.client.publish({.qos = QoS::at_least_once,
                               .retain = true,
                               .topic = "a",
                               .properties = expiry.view(),
                               .payload = "one"},
                              1));
    talk.expect("33 r s'a' k1 [ 02 w7 ] 'one'");
}

TEST_CASE("nothing of a message that was acknowledged is in the next one") {
    Talk talk;
    talk.log_in();
    CHECK(talk.publish("long/topic", std::string(100, 'x'), QoS::exactly_once, 11));
    talk.expect("34 r s'long/topic' k1 '" + std::string(100, 'x') + "'");
    talk.send("50 r k1 | 70 r k1", {"acknowledged 11 success"});
    talk.expect("62 r k1");
    CHECK(talk.client.in_flight() == 0);
    CHECK(talk.publish("a", "one", QoS::at_least_once, 12));
    talk.expect("32 r s'a' k2 'one'");
    CHECK(talk.client.in_flight() == 1);
    talk.send("40 r k2", {"acknowledged 12 success"});
    CHECK(talk.client.in_flight() == 0);
}

TEST_CASE("a refused message is told with the server's reason") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ ]");
    talk.publish("a", "one", QoS::at_least_once, 11);
    talk.publish("a", "two", QoS::exactly_once, 12);
    talk.send("40 r k1 87 | 50 r k2 97",
              {"acknowledged 11 not authorized", "acknowledged 12 quota exceeded"});
    talk.expect("32 r s'a' k1 [ ] 'one' | 34 r s'a' k2 [ ] 'two'");
    talk.expect_nothing();
}

TEST_CASE("the server's Receive Maximum is respected, and messages wait in order") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ 21 k2 ]");
    for (std::uint64_t tag = 1; tag <= 4; ++tag)
        CHECK(talk.publish("a", std::to_string(tag), QoS::exactly_once, tag));
    CHECK(talk.publish("a", "now", QoS::at_most_once, 5));
    CHECK(talk.client.receive_maximum() == 2);
    CHECK(talk.client.in_flight() == 2);
    CHECK(talk.client.waiting() == 2);
    talk.expect("34 r s'a' k1 [ ] '1' | 34 r s'a' k2 [ ] '2' | 30 r s'a' [ ] 'now'");
    talk.send("50 r k1", {});  // still in flight
    talk.expect("62 r k1");
    talk.send("70 r k1", {"acknowledged 1 success"});
    talk.expect("34 r s'a' k3 [ ] '3'");
    CHECK(talk.client.waiting() == 1);
}

TEST_CASE(
    "a message that the server has declared not to take is not sent, and reported as refused") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ 24 01 27 w20 ]");
    talk.diary.lines.clear();
    CHECK(talk.publish("a", "two", QoS::exactly_once, 1));
    CHECK(talk.publish("a", std::string(20, 'x'), QoS::at_most_once, 2));
    CHECK(talk.diary.lines ==
          Lines{"acknowledged 1 QoS not supported", "acknowledged 2 packet too large"});
    talk.expect_nothing();
}

TEST_CASE("a client has room for so many messages, and takes no more") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ 21 k1 ]");
    for (std::size_t i = 0; i < load::Outflow::most_messages; ++i)
        REQUIRE(talk.publish("a", "", QoS::at_least_once, i));
    CHECK(!talk.publish("a", "", QoS::at_least_once, 0));
    CHECK(talk.client.waiting() == load::Outflow::most_messages - 1);
}

TEST_CASE("when the connection of a clean session ends, messages without an answer are in doubt") {
    Talk talk;
    talk.log_in();
    CHECK(talk.publish("a", "one", QoS::at_least_once, 11));
    CHECK(talk.publish("a", "two", QoS::exactly_once, 12));
    talk.diary.lines.clear();
    SUBCASE("the server has closed") {
        talk.vanish();
        CHECK(talk.diary.lines.size() == 3);
    }
    SUBCASE("the owner has") {
        talk.client.reset();
        CHECK(talk.diary.lines.size() == 2);
    }
    talk.diary.lines.resize(2);
    CHECK(talk.diary.lines == Lines{"in doubt 11", "in doubt 12"});
    CHECK(!talk.publish("a", "three", QoS::at_least_once, 13));
}

TEST_CASE("a kept session goes on where it was, within the new Receive Maximum") {
    Talk talk(Version::v5_0, true);
    talk.log_in("20 r 00 00 [ 21 k3 ]");
    for (std::uint64_t tag = 1; tag <= 4; ++tag)
        talk.publish("a", std::to_string(tag), tag == 2 ? QoS::exactly_once : QoS::at_least_once,
                     tag);
    talk.send("50 r k2", {});
    talk.vanish();
    CHECK(talk.diary.lines.size() == 1);  // that it was closed

    talk.log_in("20 r 01 00 [ 21 k2 ]");
    talk.expect("3a r s'a' k1 [ ] '1' | 62 r k2");
    talk.send("40 r k1", {"acknowledged 1 success"});
    talk.expect("3a r s'a' k3 [ ] '3'");
    talk.send("70 r k2", {"acknowledged 2 success"});
    talk.expect("32 r s'a' k4 [ ] '4'");  // for the first time
    talk.expect_nothing();
}

TEST_CASE("a server that has completed a message before may not know it in recovery") {
    Talk talk(Version::v5_0, true);
    talk.log_in("20 r 00 00 [ ]");
    talk.publish("a", "1", QoS::exactly_once, 1);
    talk.send("50 r k1", {});
    talk.vanish();
    talk.log_in("20 r 01 00 [ ]");
    talk.send("70 r k1 92", {"acknowledged 1 success"});
}

TEST_CASE(
    "when a kept session is gone, sent messages are in doubt, and waiting messages are sent") {
    Talk talk(Version::v5_0, true);
    talk.log_in("20 r 00 00 [ 21 k1 ]");
    talk.publish("a", "1", QoS::at_least_once, 1);
    talk.publish("a", "2", QoS::at_least_once, 2);
    talk.vanish();
    talk.connect();
    talk.send("20 r 00 00 [ ]", {"in doubt 1", "connected"});
    talk.expect("32 r s'a' k2 [ ] '2'");
    talk.expect_nothing();
}

TEST_CASE("identifiers that are in use are passed over" * doctest::skip(sanitized)) {  // all 65,535
    Talk talk;
    talk.log_in();
    talk.publish("a", "", QoS::at_least_once, 0);  // keeps its identifier, 1
    for (int i = 2; i <= 65'535; ++i) {
        talk.publish("a", "", QoS::at_least_once, 1);
        if (i % 1000 != 0 && i != 65'535) continue;
        talk.run.settle();
        talk.other().waiting();
        std::string acknowledgements;
        for (int id = i - i % 1000 - (i % 1000 == 0 ? 1000 : 0) + 1; id <= i; ++id)
            if (id > 1)
                acknowledgements +=
                    wire("40 02") + static_cast<char>(id >> 8) + static_cast<char>(id);
        talk.other().write(acknowledgements);
        REQUIRE(talk.run.until([&] { return talk.client.in_flight() == 1; }));
    }
    talk.other().waiting();
    talk.publish("a", "", QoS::at_least_once, 2);
    talk.expect("32 r s'a' k2");
}

}  // namespace pulsegate
