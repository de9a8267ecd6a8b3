// MQTT 5.0, sections 3.14, 3.15 and 4.12: DISCONNECT, AUTH and enhanced authentication, which is
// not offered; section 4.13: errors.

#include "tests/conformance/mqtt5.h"

using namespace pulsegate;
using namespace pulsegate::mqtt5;

TEST_CASE("5.0 [MQTT-3.14.0-1] no DISCONNECT comes before a CONNACK that accepts") {
    Gateway gateway;
    // check_rejected takes a refusing CONNACK, or nothing.
    for (const std::string& first :
         {std::string("c0 00"), std::string("c1 00"), std::string("e0 r 00 [ ]"),
          std::string("ff ff ff ff ff"), std::string("10 r1000000"), connect("p", "", "03"),
          connect("p", "15 s'SCRAM'"), connect("p", "21 k0"),
          connect("p", "", "06", "[ ] s'$x' s''"), connect("p", "", "03") + " | c0 00"})
        check_rejected(gateway, first);
}

TEST_CASE("5.0 [MQTT-3.14.1-1] DISCONNECT with flags is malformed") {
    Gateway gateway;
    for (const char* packet : {"e1 00", "e2 01 00", "e4 00", "e8 r 00 [ ]"})
        check_ends(gateway, packet, Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.14.2-1] DISCONNECT has a reason code of its own kind, from either side") {
    Gateway gateway;
    for (const char* reason : {"01", "8e", "87", "8b", "ff"}) {  // a server's, or nobody's
        auto c = join(gateway, connect("p"));
        c.send("e0 01 " + std::string(reason)).expect_close(Reason::protocol_error);
    }
    for (const char* reason :
         {"00", "04", "80", "81", "82", "83", "90", "93", "94", "95", "96", "97", "98", "99"}) {
        auto c = join(gateway, connect("p"));
        c.send("e0 01 " + std::string(reason)).expect_close();
    }
}

TEST_CASE("5.0 [MQTT-3.14.2-2] the gateway's DISCONNECT has no session expiry interval") {
    Gateway gateway;
    const auto check = [](Conversation& c, Reason reason) {
        const auto last = c.rest();
        const auto disconnect = read_as<Disconnect>(last);
        CHECK(disconnect.reason == reason);
        CHECK(!disconnect.properties.number(Property::session_expiry_interval));
    };
    auto first = join(gateway, connect("p", kept));
    auto second = resume(gateway, "p");
    check(first, Reason::session_taken_over);
    second.send("c1 00");
    check(second, Reason::malformed_packet);
    auto third = resume(gateway, "p");
    gateway.stop();
    check(third, Reason::server_shutting_down);
}

TEST_CASE("5.0 [MQTT-3.14.2-3] DISCONNECT is no larger than the client takes") {
    Gateway gateway;
    const auto told = [&](const std::string& limit) {
        auto c = join(gateway, connect("p", limit));
        const auto last = c.send("c1 00").rest();
        const auto disconnect = read_as<Disconnect>(last);
        CHECK(disconnect.reason == Reason::malformed_packet);
        return std::pair(last.size(),
                         disconnect.properties.text(Property::reason_string).has_value());
    };
    const auto [whole, has_text] = told("");
    CHECK(has_text);
    CHECK(told("27 w" + std::to_string(whole)) == std::pair(whole, true));
    const auto [shorter, still] = told("27 w" + std::to_string(whole - 1));
    CHECK(shorter < whole);
    CHECK(!still);
}

TEST_CASE(
    "5.0 [MQTT-3.14.4-1] [MQTT-3.14.4-2] after its DISCONNECT the gateway sends nothing more and "
    "closes") {
    Gateway gateway;
    auto sender = join(gateway, connect("sender"));
    auto c = join(gateway, connect("p"));
    subscribe(c, "x", "01");
    c.send("c1 00 | c0 00 | 32 r s'x' k1 [ ] | 82 r k1 [ ] s'y' 00");
    sender.send("32 r s'x' k1 [ ]").expect("40 02 k1");
    // A message may have been quicker than the DISCONNECT, but nothing comes after it.
    std::string last;
    for (auto rest = c.rest(); !rest.empty(); rest.erase(0, last.size())) {
        const Frame frame = next_frame(as_bytes(rest), 1000);
        REQUIRE(frame.status == Frame::Status::complete);
        last = rest.substr(0, frame.size);
    }
    CHECK(read_as<Disconnect>(last).reason == Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.14.4-3] DISCONNECT 0x00 discards the will") {
    Gateway gateway;
    auto watcher = join(gateway, connect("watcher"));
    subscribe(watcher, "will", "00");
    for (const unsigned shard : {0u, 1u})
        for (const char* goodbye : {"e0 00", "e0 01 00", "e0 r 00 [ ]", "e0 r 00 [ 1f s'bye' ]"})
            for (const char* properties : {"", "11 w3600"}) {
                auto c = log_in(gateway, connect(at_home(shard, "p"), properties, "06",
                                                 "[ ] s'will' s'gone'"))
                             .first;
                c.send(goodbye).expect_close();
            }
    watcher.expect_nothing();
    auto c = log_in(gateway, connect("p", "", "06", "[ ] s'will' s'with will'")).first;
    c.send("e0 01 04").expect_close();
    watcher.expect("30 r s'will' [ ] 'with will'").expect_nothing();
}

TEST_CASE(
    "5.0 [MQTT-4.13.1-1] a session that was to end with its connection can't be kept by its "
    "DISCONNECT") {
    Gateway gateway;
    for (const char* properties : {"", "11 w0"}) {
        auto c = join(gateway, connect("p", properties));
        c.send("e0 r 00 [ 11 w10 ]").expect_close(Reason::protocol_error);
        join(gateway, connect("p", "", "00")).expect_nothing();
    }
}

TEST_CASE(
    "5.0 [MQTT-4.13.1-1] [MQTT-4.13.2-1] a client that breaks the protocol is disconnected with "
    "the reason") {
    Gateway gateway;
    const auto reason = [&](const char* packet) {
        auto c = join(gateway, connect("p"));
        c.send(packet);
        return disconnected(c);
    };
    CHECK(reason("00 00") == Reason::malformed_packet);
    CHECK(reason("c0 01 00") == Reason::malformed_packet);
    CHECK(reason("c0 ff ff ff ff") == Reason::malformed_packet);
    CHECK(reason("30 r s'x' [ 7f 00 ]") == Reason::malformed_packet);
    CHECK(reason("30 r s'x' [ 03 s'a' 03 s'b' ]") == Reason::protocol_error);
    CHECK(reason("30 r s'' [ ]") == Reason::protocol_error);
    CHECK(reason("20 03 00 00 00") == Reason::protocol_error);
    CHECK(reason("90 r k1 [ ] 00") == Reason::protocol_error);
    CHECK(reason("b0 r k1 [ ] 00") == Reason::protocol_error);
    CHECK(reason("d0 00") == Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-4.13.1-1] an acknowledgement of the wrong kind is a protocol error") {
    Gateway gateway;
    const auto answered = [&](const char* topic, const char* acknowledgement) {
        auto sender = join(gateway, connect("sender"));
        auto c = join(gateway, connect("p"));
        subscribe(c, "one", "01");
        subscribe(c, "two", "02");
        publish_exactly_once(sender, topic);
        CHECK(published(c.packet(), v5).packet_id == 1);
        c.send(acknowledgement);
        return disconnected(c);
    };
    CHECK(answered("one", "50 02 k1") == Reason::protocol_error);
    CHECK(answered("two", "40 02 k1") == Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-3.15.1-1] AUTH with flags is malformed") {
    Gateway gateway;
    for (const char* first_byte : {"f1", "f2", "f4", "f8"})
        check_ends(gateway, std::string(first_byte) + " r 19 [ 15 s'SCRAM' ]",
                   Reason::malformed_packet);
}

TEST_CASE("5.0 [MQTT-3.15.2-1] AUTH with a reason code of another kind is a protocol error") {
    Gateway gateway;
    for (const char* reason : {"01", "17", "1a", "8c"})
        check_ends(gateway, "f0 r " + std::string(reason) + " [ 15 s'SCRAM' ]",
                   Reason::protocol_error);
}

TEST_CASE("5.0 [MQTT-4.12.0-1] [MQTT-4.12.0-4] an authentication method is refused with 0x8C") {
    Gateway gateway;
    for (const char* properties : {"15 s'SCRAM-SHA-1'", "15 s''", "15 s'GS2-KRB5' 16 s4 01020304"})
        for (const char* flags : {"00", "02"})
            CHECK(refusal(gateway, connect("p", properties, flags)) ==
                  Reason::bad_authentication_method);
    // An exchange that is not offered can't be begun by an AUTH either.
    CHECK(refusal(gateway, connect("p", "15 s'SCRAM'") + " | f0 r 18 [ 15 s'SCRAM' ]") ==
          Reason::bad_authentication_method);
}

TEST_CASE(
    "5.0 [MQTT-4.12.0-6] a client that states no authentication method is told of none, and gets "
    "no AUTH") {
    Gateway gateway;
    Conversation c(gateway);
    const auto packet = c.send(connect("p", "", "c2", "s'bob' s'secret'")).packet();
    const auto connack = read_as<Connack>(packet);  // the first packet, so there was no AUTH
    CHECK(connack.reason == Reason::success);
    CHECK(!connack.properties.text(Property::authentication_method));
    CHECK(!connack.properties.text(Property::authentication_data));
    c.expect_nothing();
}

TEST_CASE("5.0 [MQTT-4.12.0-7] [MQTT-4.12.1-2] an AUTH where none was agreed is a protocol error") {
    Gateway gateway;
    for (const char* packet : {"f0 r 18 [ 15 s'SCRAM' ]", "f0 r 19 [ 15 s'SCRAM' ]",
                               "f0 r 00 [ 15 s'SCRAM' ]", "f0 r 19 [ ]", "f0 00"})
        check_ends(gateway, packet, Reason::protocol_error);
}
