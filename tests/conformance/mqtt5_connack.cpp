// MQTT 5.0, section 3.2: CONNACK.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

TEST_CASE("5.0 [MQTT-3.2.0-1] CONNACK is the first packet, also where messages wait") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        auto first = join(gateway, connect(client, kept));
        subscribe(first, "x", "02");
        first.send("32 r s'x' k1 [ ] 'in flight'");
        CHECK(hear(first, 1).front() == "in flight");
        vanish(first);
        auto sender = join(gateway, connect("sender"));
        sender.send("32 r s'x' k1 [ ] 'waits'").expect("40 02 k1");
        // What the client sends with its CONNECT is answered after the CONNACK too.
        Conversation again(gateway);
        again.send(connect(client, kept, "00") + " | c0 00");
        const auto packet = again.packet();
        CHECK(read_as<Connack>(packet).session_present);
        CHECK(again.packet().front() == wire("3a").front());
    }
}

TEST_CASE("5.0 [MQTT-3.2.0-2] there is one CONNACK on a connection") {
    Gateway gateway;
    auto c = join(gateway, connect("p", kept));
    c.send("82 r k1 [ ] s'x' 00 | c0 00").expect("90 r k1 [ ] 00 | d0 00");
    auto other = join(gateway, connect("q"));
    other.send("30 r s'x' [ ] 'hi'").expect_nothing();
    c.expect("30 r s'x' [ ] 'hi'").expect_nothing();
    c.send(connect("p", kept, "00"));
    CHECK(disconnected(c) == Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-3.2.2-1] a CONNACK has no flags but session present") {
    Gateway gateway;
    const auto flags = [&](const std::string& connect) {
        Conversation c(gateway);
        return static_cast<unsigned char>(c.send(connect).packet().at(2));
    };
    CHECK(flags(connect("p", kept)) == 0);
    CHECK(flags(connect("p", kept, "00")) == 1);
    CHECK(flags(connect("p", "15 s'SCRAM'")) == 0);
}

TEST_CASE("5.0 [MQTT-3.2.2-2] [MQTT-3.2.2-3] session present tells whether a session goes on") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto client = at_home(shard, "alice");
        const auto present = [&](const char* flags, const std::string& properties) {
            return log_in(gateway, connect(client, properties, flags)).second;
        };
        CHECK(!present("00", kept));
        CHECK(present("00", kept));
        CHECK(!present("02", kept));
        CHECK(present("00", ""));
        CHECK(!present("00", ""));
        CHECK(!present("02", ""));

        // The same where the first connection is still open.
        auto first = log_in(gateway, connect(client, kept)).first;
        auto [second, taken_over] = log_in(gateway, connect(client, kept, "00"));
        CHECK(taken_over);
        auto [third, clean] = log_in(gateway, connect(client, "", "02"));
        CHECK(!clean);
        auto [fourth, ended] = log_in(gateway, connect(client, "", "00"));
        CHECK(!ended);
    }
}

TEST_CASE("5.0 [MQTT-3.2.2-6] a refusal has no session present, though there is one") {
    Gateway gateway;
    auto first = join(gateway, connect("alice", kept));
    leave(first);
    for (const auto& refused :
         {connect("alice", "15 s'SCRAM'", "00"), connect("alice", kept, "04", "[ ] s'$x' s'!'")}) {
        Conversation c(gateway);
        const auto packet = c.send(refused).packet();
        const auto connack = read_as<Connack>(packet);
        CHECK(is_error(connack.reason));
        CHECK(!connack.session_present);
    }
    resume(gateway, "alice").expect_nothing();  // a refusal is no harm to it
}

TEST_CASE("5.0 [MQTT-3.2.2-15] a packet larger than was announced is answered with 0x95") {
    Gateway gateway([](Config& config) { config.max_packet_size = 2000; });
    Conversation c(gateway);
    const auto packet = c.send(connect("p")).packet();
    CHECK(read_as<Connack>(packet).properties.number(Property::maximum_packet_size) == 2000u);
    subscribe(c, "x", "00");
    c.send("30 r s'x' [ ] 'y'*1993").expect("30 r s'x' [ ] 'y'*1993");
    c.send("30 r1998 s'x' [ ]").expect_close(Reason::packet_too_large);
}

TEST_CASE(
    "5.0 [MQTT-3.2.2-17] a topic alias above the maximum that was announced is answered with "
    "0x94") {
    Gateway gateway;
    Conversation c(gateway);
    const auto packet = c.send(connect("p")).packet();
    const auto maximum =
        read_as<Connack>(packet).properties.number(Property::topic_alias_maximum).value_or(0);
    CHECK(maximum == 16);
    c.send("30 r s'x' [ 23 k" + std::to_string(maximum) + " ] | c0 00").expect("d0 00");
    c.send("30 r s'x' [ 23 k" + std::to_string(maximum + 1) + " ]")
        .expect_close(Reason::topic_alias_invalid);
}

TEST_CASE(
    "5.0 [MQTT-3.2.2-19] a refusal is no larger than the client takes, and goes without its reason "
    "string then") {
    Gateway gateway;
    const auto told = [&](const std::string& limit) {
        Conversation c(gateway);
        const auto packet = c.send(connect("p", limit + " 15 s'SCRAM'")).packet();
        c.expect_close();
        const auto connack = read_as<Connack>(packet);
        CHECK(connack.reason == Reason::bad_authentication_method);
        return std::pair(packet.size(),
                         connack.properties.text(Property::reason_string).has_value());
    };
    CHECK(told("").second);
    CHECK(told("27 w5") == std::pair(std::size_t{5}, false));
    const auto whole = told("").first;
    CHECK(told("27 w" + std::to_string(whole)) == std::pair(whole, true));
    CHECK(!told("27 w" + std::to_string(whole - 1)).second);
}
