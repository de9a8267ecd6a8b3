#include "server/login/login_flow.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "server/auth/passwords/passwords.h"
#include "server/settings/config.h"
#include "tests/support/gateway.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

using boost::asio::ip::tcp;

std::string metrics(const Gateway& gateway) {
    return Conversation(gateway.http_port())
        .send_bytes("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .rest();
}

std::string connect(const std::string& client) {
    return "10 r s'MQTT' 04 c2 k10 s'" + client + "' s'" + client + "' s'secret'";
}

}  // namespace

// What the waiting logins own is looked at by the sanitizers: nothing of it may be left.

TEST_CASE("a login that waits for its turn ends with the gateway") {
    Gateway gateway([](Config& config) {
        config.shards = 1;
        config.admission.login_rate = 0.001;
        config.login_wait = 60'000;
    });
    Conversation first(gateway);
    first.login("first");
    Conversation second(gateway);
    second.send(connect("second"));
    REQUIRE(comes_true([&] {
        return metrics(gateway).find("pulsegate_logins_waiting{shard=\"0\"} 1\n") !=
               std::string::npos;
    }));
    gateway.stop();
    second.expect_close();
}

TEST_CASE("a login that waits for its authentication ends with the gateway") {
    boost::asio::io_context io;
    tcp::acceptor backend(io, {boost::asio::ip::address_v4::loopback(), 0});
    Gateway gateway([&](Config& config) {
        config.authenticator.hook.url = HttpUrl{
            .host = "127.0.0.1", .port = backend.local_endpoint().port(), .target = "/auth"};
        config.authenticator.hook.timeout = 60'000;
    });
    Conversation client(gateway);
    client.send(connect("alice"));
    const tcp::socket asked = backend.accept();  // and never answered
    gateway.stop();
    client.expect_close();
}

TEST_CASE("logins that wait for their password's check end with the gateway") {
    const TemporaryFolder folder;
    const auto users = folder.path("users");
    set_password(users, "alice", "right", 300'000, FileMust::be_new);
    Gateway gateway([&](Config& config) { config.authenticator.password_file = users; });
    std::vector<Conversation> clients;
    for (int i = 0; i < 20; ++i) {
        clients.emplace_back(gateway);
        clients.back().send(connect("guess" + std::to_string(i)));
    }
    gateway.settle();
    gateway.stop();
    for (Conversation& client : clients) CHECK(client.rest() != wire("20 02 00 00"));
}

TEST_CASE("a login that waits before it takes over ends with the gateway, wherever it is at home") {
    for (const unsigned shard : {0u, 1u}) {
        Gateway gateway([](Config& config) { config.client_limits.duel_takeovers = 1; });
        const auto name = at_home(shard, "twin");
        Conversation first(gateway);
        first.login(name);
        Conversation second(gateway);
        second.login(name);
        first.expect_close();
        Conversation third(gateway);
        third.send(connect(name));
        REQUIRE(comes_true(
            [&] { return gateway.has_logged("of user '" + name + "': taken over again"); }));
        gateway.stop();
        third.expect_close();
    }
}

TEST_CASE("packets behind a CONNECT are read when the login has waited") {
    Gateway gateway([](Config& config) { config.client_limits.duel_takeovers = 1; });
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "eager");
        Conversation first(gateway);
        first.login(name);
        Conversation second(gateway);
        second.login(name);
        first.expect_close();
        Conversation third(gateway);
        third.send(connect(name) + " | c0 00 | c0 00").send("c0 00");
        third.expect("20 02 00 00 d0 00 d0 00 d0 00");
        second.expect_close();
    }
}

TEST_CASE("no user comes online after the watchers were told that everybody is offline") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login(at_home(0, "watcher")).send("82 r k1 s'presence/+' 00").expect("90 03 k1 00");
    watcher.packet();  // itself
    watcher.expect_nothing();
    Conversation here(gateway);
    here.login(at_home(1, "here"));
    watcher.packet();
    watcher.expect_nothing();
    Conversation late(gateway);
    Conversation newer(gateway);
    gateway.await_connections(4);
    gateway.announce_shutdown();
    for (int gone = 0; gone < 2; ++gone) {
        const auto packet = watcher.packet();
        CHECK(published(packet).payload.find("offline") != std::string_view::npos);
    }
    late.send("10 r s'MQTT' 04 02 k10 s'" + at_home(1, "late") + "'")
        .expect("20 02 00 03")
        .expect_close();
    newer.send("10 r s'MQTT' 05 02 k10 [ 27 w9 ] s'" + at_home(0, "newer") + "'")
        .expect("20 03 00 88 00")
        .expect_close();
    watcher.expect_nothing();
    gateway.stop();
    watcher.expect_close();
}

TEST_CASE("a packet that no client may send counts as a bad packet") {
    Gateway gateway([](Config& config) { config.shards = 1; });
    int bad = 0;
    for (const char* packet : {"10 r s'MQTT' 05 02 k10 [] s'p'", "f0 00", "30 r s'' k1 [ 23 k9 ]",
                               "32 r s'x' k0 []", "a2 r k1 []"}) {
        CAPTURE(packet);
        Conversation(gateway).login("p", Version::v5_0).send(packet).rest();
        const auto counted = "pulsegate_bad_packets_total{shard=\"0\"} " + std::to_string(++bad);
        CHECK(metrics(gateway).find(counted + "\n") != std::string::npos);
    }
}
