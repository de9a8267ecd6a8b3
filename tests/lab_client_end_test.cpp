#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/lab_client.h"

namespace pulsegate {

using load::Ending;
using load::MqttClient;
using load::Stage;

// -- faults of the server --

TEST_CASE("a violation of the protocol ends the connection with a clear cause") {
    const auto cause = [](std::string_view packet, Version version = Version::v3_1_1) {
        Talk talk(version);
        talk.log_in(version == Version::v5_0 ? "20 r 00 00 [ ]" : "20 r 00 00");
        talk.diary.lines.clear();
        talk.other().write(wire(packet));
        talk.run.until([&] { return !talk.diary.lines.empty(); });
        CHECK(talk.diary.by == Ending::By::violation);
        CHECK(talk.diary.stage == Stage::online);
        return talk.diary.lines.back();
    };
    CHECK(cause("20 r 00 00") == "closed: a second CONNACK");
    CHECK(cause("40 r k3") == "closed: PUBACK for packet identifier 3, which no message awaits");
    CHECK(cause("50 r k3") == "closed: PUBREC for packet identifier 3, which no message awaits");
    CHECK(cause("70 r k3") == "closed: PUBCOMP for packet identifier 3, which no message awaits");
    CHECK(cause("90 r k3 00") == "closed: SUBACK for packet identifier 3, which no SUBSCRIBE has");
    CHECK(cause("30 r s'a' [ 23 k1 ]", Version::v5_0) ==
          "closed: PUBLISH: a topic alias, although none was allowed");
    CHECK(cause("c0 r").starts_with("closed: PINGREQ"));
    CHECK(cause("f0 r 18 [ 15 s'x' ]", Version::v5_0) ==
          "closed: the server sent a packet that is not for clients");
}

TEST_CASE("no packet comes before the CONNACK") {
    for (const char* packet : {"30 r s'a' 'x'", "d0 r", "90 r k1 00", "40 r k1"}) {
        CAPTURE(packet);
        Talk talk;
        talk.connect();
        talk.send(packet, {"closed: a packet before the CONNACK"});
        CHECK(talk.diary.by == Ending::By::violation);
        CHECK(talk.diary.stage == Stage::logging_in);
    }
}

TEST_CASE("a session that was not to be kept can't be present") {
    Talk talk;
    talk.connect();
    talk.send("20 r 01 00",
              {"closed: CONNACK: a session is present, although none was to be kept"});
    CHECK(talk.diary.by == Ending::By::violation);
}

TEST_CASE("an acknowledgement of the wrong kind is a fault") {
    Talk talk;
    talk.log_in();
    talk.publish("a", "two", QoS::exactly_once, 12);
    SUBCASE("PUBACK") {
        talk.send("40 r k1", {"in doubt 12",
                              "closed: PUBACK for packet identifier 1, which no "
                              "message awaits"});
    }
    SUBCASE("PUBCOMP without PUBREC") {
        talk.send("70 r k1", {"in doubt 12",
                              "closed: PUBCOMP for packet identifier 1, which no "
                              "message awaits"});
    }
}

TEST_CASE("a SUBACK must answer each filter") {
    Talk talk;
    talk.log_in();
    const SubscribeFilter filters[] = {{"a", {}}, {"b", {}}};
    talk.client.subscribe(filters);
    talk.send("90 r k1 00",
              {"closed: SUBACK for packet identifier 1, without an answer to each filter"});
}

TEST_CASE("a DISCONNECT of the server is told with its reason") {
    Talk talk(Version::v5_0);
    talk.log_in("20 r 00 00 [ ]");
    talk.send("e0 r 8e [ ]", {"closed: DISCONNECT: session taken over"});
    CHECK(talk.diary.by == Ending::By::disconnect);
}

TEST_CASE("a packet that is too large for the client is no fault of the server") {
    Talk talk;
    talk.log_in();
    talk.diary.lines.clear();
    talk.other().write(wire("30 ffffff7f"));
    REQUIRE(talk.run.until([&] { return !talk.diary.lines.empty(); }));
    CHECK(talk.diary.by == Ending::By::local);
}

// -- going away --

TEST_CASE("a client that leaves says so, and its socket is closed after the server's") {
    Talk talk;
    talk.log_in();
    talk.diary.lines.clear();
    talk.other().write(wire("30 r s'a' 'unread'"));
    talk.client.disconnect();
    CHECK(talk.client.stage() == Stage::away);
    talk.expect("e0 r");
    CHECK(talk.other().read(1).empty());
    talk.other().close();
    talk.run.settle();
    CHECK(talk.diary.lines.empty());
}

TEST_CASE("a client that leaves while it receives acknowledges first") {
    Talk talk;
    talk.log_in();
    talk.diary.on_received = [](MqttClient& client) {
        if (client.connections() == 1 && client.stage() == Stage::online) client.disconnect();
    };
    talk.send("34 r s'a' k6 'x' | 62 r k6", {"received a=x"});
    talk.expect("e0 r");
    CHECK(talk.other().read(1).empty());
}

TEST_CASE("a client that falls silent reads on, and sends nothing") {
    Talk talk;
    talk.log_in();
    talk.client.fall_silent();
    talk.send("32 r s'a' k5 'one' | 62 r k9", {"received a=one"});
    talk.expect_nothing();
    talk.vanish();
    CHECK(talk.diary.stage == Stage::silent);
}

TEST_CASE("an abandoned client is told when the server closes it") {
    Talk talk;
    talk.log_in();
    talk.client.abandon();
    talk.send("32 r s'a' k5 'one'", {});
    talk.expect_nothing();
    talk.other().finish();
    CHECK(talk.run.until([&] { return talk.client.stage() == Stage::away; }));
    CHECK(talk.diary.stage == Stage::abandoned);
}

TEST_CASE("an abandoned client that connects leaves its old socket half open") {
    Talk talk;
    talk.log_in();
    talk.publish("a", "one", QoS::at_least_once, 11);
    talk.client.abandon();
    talk.diary.lines.clear();
    talk.log_in();
    CHECK(talk.diary.lines == Lines{"in doubt 11", "connected"});
    CHECK(talk.client.connections() == 2);
    CHECK(talk.host.half_open.size() == 1);
    CHECK(hex(talk.connections.front().waiting()) == hex(wire("32 r s'a' k1 'one'")));
    talk.connections.front().close();
    CHECK(talk.run.until([&] { return talk.host.half_open.size() == 0; }));
    CHECK(talk.client.stage() == Stage::online);
}

TEST_CASE("a client that reads slowly gets what it asks for") {
    Talk talk;
    talk.log_in();
    talk.client.read_at_most(0);
    talk.send("30 r s'a' 'x'", {});
    talk.diary.lines.clear();
    talk.client.read_at_most(6);
    CHECK(talk.run.until([&] { return talk.diary.lines == Lines{"received a=x"}; }));
}

}  // namespace pulsegate
