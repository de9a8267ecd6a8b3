#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "protocol/decode.h"
#include "tests/support/gateway.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

const std::string all_promises = promises;

/// The CONNACK of a packet's bytes. The result views them.
Connack accepted(const std::string& packet, Version version = Version::v5_0) {
    const Decoded decoded = decode(as_bytes(packet), version, Sender::server);
    const auto* value = std::get_if<Packet>(&decoded);
    const auto* connack = value ? std::get_if<Connack>(value) : nullptr;
    REQUIRE_MESSAGE(connack, "no CONNACK: ", hex(packet));
    return *connack;
}

/// The Server Keep Alive that a client is told which states this one; 0: none.
std::uint32_t told_keepalive(const std::function<void(Config&)>& adjust, const char* stated) {
    Gateway gateway(adjust);
    Conversation c(gateway);
    c.send("10 r s'MQTT' 05 02 " + std::string(stated) + " [ ] s'p'");
    const auto packet = c.packet();
    return accepted(packet).properties.number(Property::server_keep_alive).value_or(0);
}

}  // namespace

TEST_CASE("a client of either version logs in, on whichever shard its user is at home") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (int i = 0; i < 8; ++i) {  // the kernel chooses the shard that accepts
            const auto name = at_home(shard, "alice" + std::to_string(i));
            Conversation(gateway).login(name, Version::v3_1_1).send("e0 00").expect_close();
            Conversation(gateway).login(name, Version::v5_0).send("e0 00").expect_close();
        }
}

TEST_CASE("packets that arrive together with CONNECT are answered in order") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (int i = 0; i < 8; ++i) {
            const auto name = at_home(shard, "eager" + std::to_string(i));
            Conversation(gateway)
                .send("10 r s'MQTT' 04 02 k10 s'" + name +
                      "' | 82 r k7 s'x' 01 | 32 r s'x' k9 'hi' | c0 00 | c0 00")
                .expect("20 02 00 00 | 90 03 k7 01 | 32 r s'x' k1 'hi' | 40 02 k9 | d0 00 | d0 00");
        }
}

TEST_CASE("an empty client id is accepted with a clean session, and refused in 3.1.1 without") {
    Gateway gateway;
    Conversation(gateway).send("10 r s'MQTT' 04 02 k10 s''").expect("20 02 00 00").expect_nothing();
    Conversation(gateway).send("10 r s'MQTT' 04 00 k10 s''").expect("20 02 00 02").expect_close();
}

TEST_CASE("a 5.0 client without a client id is told the one that it got") {
    Gateway gateway;
    std::string ids[2];
    for (auto& id : ids) {
        Conversation c(gateway);
        c.send("10 r s'MQTT' 05 02 k10 [ ] s''");
        const auto packet = c.packet();
        const auto connack = accepted(packet);
        CHECK(connack.reason == Reason::success);
        id = connack.properties.text(Property::assigned_client_identifier).value_or("");
        CHECK(!id.empty());
        c.expect_nothing();
    }
    CHECK(ids[0] != ids[1]);
}

TEST_CASE("without a client id, a username decides where the client is at home") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (int i = 0; i < 4; ++i)
            Conversation(gateway)
                .send("10 r s'MQTT' 04 82 k10 s'' s'" + at_home(shard, "bob") + "'")
                .expect("20 02 00 00")
                .expect_nothing();
}

TEST_CASE("a 5.0 client is told when its session is kept for less than it asked for") {
    Gateway gateway([](Config& config) { config.max_session_expiry = 60'000; });
    for (const char* asked : {"61", "4294967295"})
        Conversation(gateway)
            .send("10 r s'MQTT' 05 02 k10 [ 11 w" + std::string(asked) + " ] s'p'")
            .expect("20 r 00 00 [ " + all_promises + " 11 w60 ]")
            .expect_nothing();
    Conversation(gateway)
        .send("10 r s'MQTT' 05 02 k10 [ 11 w60 ] s'p'")
        .expect("20 r 00 00 [ " + all_promises + " ]")
        .expect_nothing();
}

TEST_CASE("an unknown protocol level gets the CONNACK that such a client understands") {
    Gateway gateway;
    Conversation(gateway).send("10 r s'MQTT' 03 02 k10 s'p'").expect("20 02 00 01").expect_close();
    Conversation(gateway)
        .send("10 r s'MQTT' 06 02 k10 00 s'p'")
        .expect("20 r 00 84 [ 1f s'CONNECT: unknown protocol level' ]")
        .expect_close();
    Conversation(gateway)
        .send("10 r s'MQTT' 03 02 k10 s'" + std::string(200, 'p') + "'")
        .expect("20 02 00 01")
        .expect_close();
    Conversation(gateway)
        .send("10 r s'MQIsdp' 04 02 k10 s'p'")
        .expect("20 02 00 01")
        .expect_close();
}

TEST_CASE("a client id that is too long is refused") {
    Gateway gateway([](Config& config) { config.max_client_id_length = 30; });
    Conversation(gateway).login(std::string(30, 'p'));
    Conversation(gateway)
        .send("10 r s'MQTT' 04 02 k10 s'p'*31")
        .expect("20 02 00 02")
        .expect_close();
    Conversation(gateway)
        .send("10 r s'MQTT' 05 02 k10 [ 27 w9 ] s'p'*31")
        .expect("20 03 00 85 00")
        .expect_close();
    CHECK(gateway.has_logged("max-client-id-length"));
}

TEST_CASE("MQTT 3.1 is served as a dialect of 3.1.1") {
    Gateway gateway([](Config& config) { config.max_topic_levels = 2; });
    const auto connect =
        "10 r s'MQIsdp' 03 00 k10 s'" + at_home(1, "a client id of more than 23") + "'";
    Conversation c(gateway);
    c.send(connect).expect("20 02 00 00");
    c.send("8a r k1 s'room' 01 s'a/b/c' 02").expect("90 04 k1 01 02");  // no refusal in 3.1
    Conversation newer(gateway);
    newer.login("newer", Version::v5_0).send("32 r s'room' k9 [ ] 'hello'").expect("40 02 k9");
    c.expect("32 r s'room' k1 'hello'").send("40 02 k1");
    c.send("34 r s'y' k5 'x' | 62 02 k5 | 6a 02 k6").expect("50 02 k5 | 70 02 k5 | 70 02 k6");
    c.send("e0 00").expect_close();
    newer.send("32 r s'room' k9 [ ] 'while away'").expect("40 02 k9");
    // Its CONNACK does not say that there was a session.
    Conversation again(gateway);
    again.send(connect).expect("20 02 00 00 | 32 r s'room' k2 'while away'").expect_nothing();
    Conversation(gateway).send("10 r s'MQIsdp' 03 02 k10 s''").expect("20 02 00 02").expect_close();
}

TEST_CASE("only 3.1 marks an acknowledgement as sent again") {
    Gateway gateway;
    Conversation(gateway).login("p").send("6a 02 k1").expect_close();
    Conversation(gateway)
        .login("q", Version::v5_0)
        .send("8a r k1 [ ] s'x' 00")
        .expect_close(Reason::malformed_packet);
}

TEST_CASE("a CONNECT that is malformed after its protocol level is told what is wrong with it") {
    Gateway gateway([](Config& config) { config.max_packet_size = 1024; });
    const auto answer = [&](const char* connect) {
        CAPTURE(connect);
        Conversation c(gateway);
        const std::string packet = c.send(connect).packet();
        c.expect_close();
        const Decoded decoded = decode(as_bytes(packet), Version::v5_0, Sender::server);
        const auto& connack = std::get<Connack>(std::get<Packet>(decoded));
        CHECK(connack.properties.text(Property::reason_string).value_or("").size() > 10);
        return connack.reason;
    };
    CHECK(answer("10 r s'MQTT' 05 03 k10 [ ] s'p'") == Reason::malformed_packet);
    CHECK(answer("10 r s'MQTT' 05") == Reason::malformed_packet);
    CHECK(answer("10 r s'MQTT' 05 02 k10 [ 21 k0 ] s'p'") == Reason::protocol_error);
    CHECK(answer("10 r s'MQTT' 05 02 k10 [ ] s1 0a") == Reason::client_identifier_not_valid);
    CHECK(answer("10 r s'MQTT' 05 06 k10 [ ] s'p' [ ] s'#' s''") == Reason::topic_name_invalid);
    CHECK(answer("10 r2000 s'MQTT' 05 02 k10 [ ] s'p'") == Reason::packet_too_large);
    Conversation(gateway)
        .send("10 r s'MQTT' 05 03 k10 [ 27 w10 ] s'p'")
        .expect("20 03 00 81 00")
        .expect_close();
    Conversation(gateway).send("10 r s'MQTT' 05 03 k10 [ 27 w4 ] s'p'").expect_close();
    Conversation(gateway).send("10 r s'MQTT' 04 02 k10 s1 0a").expect("20 02 00 02").expect_close();
    Conversation(gateway).send("10 r s'MQTT' 04 03 k10 s'p'").expect_close();
}

TEST_CASE("a client that does not begin with a CONNECT is closed without an answer") {
    Gateway gateway;
    for (const char* first : {"c0 00", "e0 00", "30 r s'x' 'hi'", "82 r k1 s'x' 00", "20 02 00 00",
                              "00 00", "ff ff ff ff ff", "'GET / HTTP/1.1' 0d0a 0d0a",
                              "16 03 01 02 00 01 00", "10 r s'HTTP' 04 02 k10 s'p'"}) {
        CAPTURE(first);
        Conversation(gateway).send(first).expect_close();
    }
}

TEST_CASE("a second CONNECT on one connection is a protocol error") {
    Gateway gateway;
    Conversation(gateway).login("p").send("10 r s'MQTT' 04 02 k10 s'p'").expect_close();
    Conversation(gateway)
        .login("q", Version::v5_0)
        .send("10 r s'MQTT' 05 02 k10 [ ] s'q'")
        .expect_close(Reason::protocol_error);
}

TEST_CASE("enhanced authentication is refused with 0x8C") {
    Gateway gateway;
    Conversation c(gateway);
    c.send("10 r s'MQTT' 05 02 k10 [ 15 s'SCRAM' ] s'p'");
    const auto packet = c.packet();
    CHECK(accepted(packet).reason == Reason::bad_authentication_method);
    c.expect_close();
}

TEST_CASE("a will that can't be kept is refused at once") {
    Gateway gateway([](Config& config) {
        config.max_qos = QoS::at_least_once;
        config.retain_available = false;
    });
    const auto reason_for = [&](const char* connect) {
        Conversation c(gateway);
        c.send(connect);
        const auto packet = c.packet();
        c.expect_close();
        return accepted(packet).reason;
    };
    CHECK(reason_for("10 r s'MQTT' 05 16 k10 [ ] s'p' [ ] s'will' s'gone'") ==
          Reason::qos_not_supported);
    CHECK(reason_for("10 r s'MQTT' 05 26 k10 [ ] s'p' [ ] s'will' s'gone'") ==
          Reason::retain_not_supported);
    CHECK(reason_for("10 r s'MQTT' 05 06 k10 [ ] s'p' [ ] s'presence/x' s'gone'") ==
          Reason::not_authorized);
    CHECK(reason_for("10 r s'MQTT' 05 06 k10 [ ] s'p' [ ] s'$SYS/x' s'gone'") ==
          Reason::not_authorized);
    Conversation(gateway)
        .send("10 r s'MQTT' 04 06 k10 s'p' s'presence/x' s'gone'")
        .expect("20 02 00 05")
        .expect_close();
}

TEST_CASE("a 5.0 client that states no keepalive, or one too long, is told the server's") {
    Gateway usual;
    Gateway strict([](Config& config) { config.strict_idle_timeout = true; });
    const auto connect = [](const Gateway& gateway, const char* keepalive) {
        Conversation c(gateway);
        return std::move(c.send("10 r s'MQTT' 05 02 " + std::string(keepalive) + " [ ] s'p'"));
    };
    const auto told = [](const std::string& keepalive) {
        return "20 r 00 00 [ 13 " + keepalive + " " + all_promises + " ]";
    };
    const std::string nothing = "20 r 00 00 [ " + all_promises + " ]";
    connect(usual, "k0").expect(told("k20")).expect_nothing();
    connect(usual, "k1").expect(nothing).expect_nothing();
    connect(usual, "k60").expect(nothing).expect_nothing();
    connect(usual, "k61").expect(told("k60")).expect_nothing();
    connect(usual, "k65535").expect(told("k60")).expect_nothing();
    connect(strict, "k20").expect(nothing).expect_nothing();
    connect(strict, "k21").expect(told("k20")).expect_nothing();
}

TEST_CASE("the server keepalive is two thirds of the idle timeout, and never 0") {
    const auto told_at = [](Millis idle_timeout) {
        return told_keepalive([=](Config& config) { config.idle_timeout = idle_timeout; }, "k0");
    };
    CHECK(told_at(60'000) == 40);
    CHECK(told_at(98'303'000) == 65'535);
    CHECK(told_at(1000) == 1);
}

TEST_CASE("max-keepalive bounds what a client may state, also below the server's usual") {
    const auto told_at = [](std::uint32_t most, const char* stated) {
        return told_keepalive([=](Config& config) { config.max_keepalive = most; }, stated);
    };
    CHECK(told_at(300, "k301") == 300);
    CHECK(told_at(300, "k300") == 0);
    CHECK(told_at(300, "k0") == 20);
    CHECK(told_at(10, "k0") == 10);
    CHECK(told_at(10, "k60") == 10);
}

TEST_CASE("the largest packet that the gateway takes is told to 5.0 clients") {
    Gateway gateway([](Config& config) { config.max_packet_size = 5000; });
    Conversation c(gateway);
    c.send("10 r s'MQTT' 05 02 k10 [ ] s'p'").expect("20 r 00 00 [ 21 k256 27 w5000 22 k16 ]");
}

TEST_CASE("DISCONNECT by the client ends the connection without an answer") {
    Gateway gateway;
    Conversation(gateway).login("p").send("e0 00").expect_close();
    Conversation(gateway).login("q", Version::v5_0).send("e0 00").expect_close();
    Conversation(gateway).login("r", Version::v5_0).send("e0 01 00").expect_close();
    Conversation(gateway).login("s", Version::v5_0).send("e0 r 00 [ 1f s'bye' ]").expect_close();
}

TEST_CASE("packets after a client's DISCONNECT have no effect") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login("watcher").send("82 r k1 s'x' 00").expect("90 03 k1 00");
    Conversation(gateway).login("p").send("e0 00 | 30 r s'x' 'late'").expect_close();
    watcher.expect_nothing();
}

TEST_CASE("packets that no client may send end the connection") {
    Gateway gateway;
    for (const char* packet : {"20 03 00 00 00", "90 r k1 00 00", "b0 r k1 00 00", "d0 00"}) {
        CAPTURE(packet);
        Conversation(gateway)
            .login("p", Version::v5_0)
            .send(packet)
            .expect_close(Reason::protocol_error);
        Conversation(gateway).login("q").send("d0 00").expect_close();
    }
    Conversation(gateway)
        .login("p", Version::v5_0)
        .send("f0 r 18 [ 15 s'x' ]")
        .expect_close(Reason::protocol_error);
}

TEST_CASE("a malformed packet ends the connection with 0x81, and is logged with its cause") {
    Gateway gateway;
    Conversation(gateway)
        .login("mallory", Version::v5_0)
        .send("83 r k1 s'x' 00")
        .expect_close(Reason::malformed_packet);
    CHECK(gateway.has_logged("client 'mallory' of user 'mallory': kicked: "));
    Conversation(gateway).login("mallory").send("c1 00").expect_close();
    Conversation(gateway)
        .login("mallory", Version::v5_0)
        .send("30 r s9 'x' [ ]")
        .expect_close(Reason::malformed_packet);
}

TEST_CASE("when the gateway stops, everyone is told") {
    Gateway gateway;
    Conversation newer(gateway);
    Conversation older(gateway);
    newer.login("p", Version::v5_0);
    older.login("q");
    gateway.stop();
    newer.expect_close(Reason::server_shutting_down);
    older.expect_close();
}

TEST_CASE(
    "a client that takes no CONNACK is not logged in, seen by nobody, and takes over nothing") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login("watcher").send("82 r k1 s'presence/p' 00").expect("90 03 k1 00");
    const auto takes = [&](const char* size) -> Conversation {
        Conversation c(gateway);
        c.send("10 r s'MQTT' 05 02 k10 [ 27 w" + std::string(size) + " ] s'p'");
        return c;
    };
    takes("4").expect_close();
    takes("5").expect("20 03 00 83 00").expect_close();
    watcher.expect_nothing();
    auto p = takes("16");
    p.expect("20 r 00 00 [ " + std::string(promises) + " ]");
    watcher.packet();
    takes("15").expect("20 03 00 83 00").expect_close();
    p.expect_nothing();
    watcher.expect_nothing();
}
