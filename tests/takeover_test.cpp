#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gateway.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace json = boost::json;

namespace {

/// A client that hears of one user's presence, from the snapshot on.
class Watcher {
public:
    Watcher(const Gateway& gateway, const std::string& user, unsigned shard) : c_(gateway) {
        c_.login(at_home(shard, "watcher"));
        c_.send("82 r k1 s'presence/" + user + "' 00").expect("90 03 k1 00");
    }

    /// The next change: "online taken_over". Versions must grow.
    std::string next() {
        const auto packet = c_.packet();
        const auto presence = json::parse(std::string(published(packet).payload)).as_object();
        const auto version = presence.at("version").to_number<std::uint64_t>();
        CHECK(version > version_);
        version_ = version;
        return std::string(presence.at("state").as_string()) + " " +
               std::string(presence.at("cause").as_string());
    }

    void expect_nothing() { c_.expect_nothing(); }

private:
    Conversation c_;
    std::uint64_t version_ = 0;
};

std::string connect_with_will(const std::string& client, Version version = v4,
                              const std::string& keepalive = "k10") {
    const std::string id = " s'" + client + "' ";
    if (version == v4) return "10 r s'MQTT' 04 06 " + keepalive + id + "s'will' s'gone'";
    return "10 r s'MQTT' 05 06 " + keepalive + " [ ]" + id + "[ 03 s'text' ] s'will' s'gone'";
}

}  // namespace

TEST_CASE("a second connection takes the session over, and the first is told 0x8E") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u})
        for (int i = 0; i < 8; ++i) {
            const auto name = at_home(shard, "alice");
            Conversation first(gateway);
            Conversation second(gateway);
            first.login(name, v5);
            second.login(name, i % 2 ? v4 : v5);
            first.expect_close(Reason::session_taken_over);
            second.expect_nothing();
        }
}

TEST_CASE("a 3.1.1 connection that is taken over is closed") {
    Gateway gateway;
    Conversation first(gateway);
    first.login("alice");
    Conversation second(gateway);
    second.login("alice");
    first.expect_close();
    second.expect_nothing();
}

TEST_CASE("the end of a connection that was taken over leaves the session alone") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "alice");
        Conversation sender(gateway);
        sender.login("sender");
        Conversation first(gateway);
        first.login(name);
        Conversation second(gateway);
        second.login(name).send("82 r k1 s'x' 00").expect("90 03 k1 00");
        first.send("e0 00").expect_close().reset();
        sender.send("30 r s'x' 'hi'").expect_nothing();
        second.expect("30 r s'x' 'hi'").expect_nothing();
    }
}

TEST_CASE("the new connection starts without the subscriptions and messages of the old one") {
    Gateway gateway;
    Conversation first(gateway);
    first.login("alice").send("82 r k1 s'x' 01").expect("90 03 k1 01");
    first.send("30 r s'x' 'zero'").expect("30 r s'x' 'zero'");
    first.send("32 r s'x' k1 'one'").expect("32 r s'x' k1 'one' | 40 02 k1");
    Conversation second(gateway);
    second.login("alice").expect_nothing();
    second.send("30 r s'x' 'two'").expect_nothing();
    second.send("82 r k1 s'x' 01").expect("90 03 k1 01");
    second.send("32 r s'x' k9 'three'").expect("32 r s'x' k1 'three' | 40 02 k9");
}

TEST_CASE("a takeover never shows the user offline, and its version grows") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto user = at_home(shard, "alice");
        Watcher watcher(gateway, user, 1 - shard);
        Conversation first(gateway);
        first.login(user);
        CHECK(watcher.next() == "online login");
        Conversation second(gateway);
        second.login(user);
        CHECK(watcher.next() == "online taken_over");
        first.expect_close();
        watcher.expect_nothing();
        Conversation third(gateway);
        third.login(user);
        CHECK(watcher.next() == "online taken_over");
        second.close();
        third.expect_nothing().send("e0 00").expect_close();
        CHECK(watcher.next() == "offline logout");
        watcher.expect_nothing();
    }
}

TEST_CASE("a hundred takeovers at once leave exactly one connection alive") {
    Gateway gateway;
    const auto user = at_home(1, "popular");
    std::vector<Conversation> devices;
    for (int i = 0; i < 100; ++i) devices.emplace_back(gateway);
    for (auto& device : devices) device.send("10 r s'MQTT' 04 02 k10 s'" + user + "' | c0 00");
    int alive = 0;
    for (auto& device : devices) {
        // CONNACK, then the answer to the ping if the connection lived to send it.
        device.expect("20 02 00 00");
        device.close_writing();
        const auto rest = device.rest();
        if (rest == wire("d0 00")) ++alive;
    }
    CHECK(alive >= 1);
    Watcher watcher(gateway, user, 0);
    CHECK(watcher.next().starts_with("offline"));
    watcher.expect_nothing();
}

TEST_CASE("a client can't take over another user's session by guessing its client id") {
    Gateway gateway;
    Conversation alice(gateway);
    Conversation mallory(gateway);
    alice.send("10 r s'MQTT' 04 82 k10 s'phone' s'alice'").expect("20 02 00 00");
    mallory.send("10 r s'MQTT' 04 82 k10 s'phone' s'mallory'").expect("20 02 00 00");
    alice.expect_nothing();
    mallory.expect_nothing();
}

TEST_CASE("the user is the client id where the setting says so") {
    Gateway gateway([](Config& config) { config.user_from = UserFrom::client_id; });
    Watcher watcher(gateway, "phone", 0);
    Conversation first(gateway);
    first.send("10 r s'MQTT' 04 82 k10 s'phone' s'fleet'").expect("20 02 00 00");
    CHECK(watcher.next() == "online login");
    Conversation second(gateway);
    second.send("10 r s'MQTT' 04 82 k10 s'phone' s'other'").expect("20 02 00 00");
    first.expect_close();
    CHECK(watcher.next() == "online taken_over");
}

TEST_CASE("a user with two devices changes state with the first and the last of them only") {
    Gateway gateway;
    Watcher watcher(gateway, "bob", 0);
    Conversation phone(gateway);
    phone.send("10 r s'MQTT' 04 82 k10 s'phone' s'bob'").expect("20 02 00 00");
    CHECK(watcher.next() == "online login");
    Conversation desk(gateway);
    desk.send("10 r s'MQTT' 04 82 k10 s'desk' s'bob'").expect("20 02 00 00");
    phone.send("e0 00").expect_close();
    watcher.expect_nothing();
    desk.reset();
    CHECK(watcher.next() == "offline connection_lost");
    watcher.expect_nothing();
}

TEST_CASE("presence tells why a user went") {
    Gateway gateway;
    Watcher watcher(gateway, "bob", 0);
    const auto end = [&](const char* last_words) {
        Conversation c(gateway);
        c.login("bob");
        CHECK(watcher.next() == "online login");
        c.send(last_words);
        c.close_writing();
        return watcher.next();
    };
    CHECK(end("e0 00") == "offline logout");
    CHECK(end("") == "offline connection_lost");
    CHECK(end("30 10") == "offline connection_lost");
    CHECK(end("c1 00") == "offline kicked");
    gateway.stop();
}

TEST_CASE("when the gateway stops, watchers are told that everyone is gone") {
    Gateway gateway;
    Watcher watcher(gateway, "bob", 0);
    Conversation c(gateway);
    c.login("bob");
    CHECK(watcher.next() == "online login");
    gateway.stop();
    CHECK(watcher.next() == "offline shutdown");
}

TEST_CASE("a will is published when the connection is lost, taken over or thrown out") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login(at_home(0, "watcher"), v5)
        .send("82 r k1 [ ] s'will' 00")
        .expect("90 r k1 [ ] 00");
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "alice");
        const auto ends = [&](Version version, auto end) {
            Conversation c(gateway);
            c.send(connect_with_will(name, version));
            c.packet();
            end(c);
            watcher.expect(version == v4 ? "30 r s'will' [ ] 'gone'"
                                         : "30 r s'will' [ 03 s'text' ] 'gone'");
            watcher.expect_nothing();
        };
        for (const Version version : {v4, v5}) {
            ends(version, [](Conversation& c) { c.close(); });
            ends(version, [](Conversation& c) { c.reset(); });
            ends(version, [](Conversation& c) { c.send("c1 00"); });
            ends(version, [&](Conversation&) {
                Conversation(gateway).login(name).send("e0 00").expect_close();
            });
        }
        ends(v5, [](Conversation& c) { c.send("e0 01 04"); });
        ends(v5, [](Conversation& c) { c.send("e0 01 81"); });
    }
}

TEST_CASE("a will is not published when the client sends DISCONNECT") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.login("watcher").send("82 r k1 s'will' 00").expect("90 03 k1 00");
    for (const char* goodbye : {"e0 00", "e0 01 00"})
        for (const Version version : {v4, v5}) {
            if (version == v4 && std::string(goodbye) != "e0 00") continue;
            Conversation c(gateway);
            c.send(connect_with_will("alice", version));
            c.packet();
            c.send(goodbye).expect_close();
        }
    watcher.expect_nothing();
}
