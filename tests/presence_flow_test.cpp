#include <doctest/doctest.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/gateway.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace json = boost::json;

namespace {

/// Many users, each with a connection that is not read from any more.
class Crowd {
public:
    Crowd(const Gateway& gateway, int size, const std::string& stem = "user") {
        for (int i = 0; i < size; ++i) {
            connections_.emplace_back(gateway);
            connections_.back().send("10 r s'MQTT' 04 02 k600 s'" + stem + std::to_string(i) + "'");
        }
        for (auto& connection : connections_) connection.expect("20 02 00 00");
    }

    std::vector<Conversation>& connections() { return connections_; }

private:
    std::vector<Conversation> connections_;
};

struct Told {
    std::string state;
    std::uint64_t version;
    int times;
};

/// Reads presence messages until `count` different users have been told.
std::map<std::string, Told> hear_of(Conversation& c, std::size_t count, Version version = v4) {
    std::map<std::string, Told> told;
    while (told.size() < count) {
        const auto packet = c.packet();
        const Publish publish = published(packet, version);
        const auto presence = json::parse(std::string(publish.payload)).as_object();
        const std::string user(presence.at("user").as_string());
        CHECK(publish.topic == "presence/" + user);
        CHECK(publish.retain);
        if (publish.qos == QoS::at_least_once)
            c.send("40 02 k" + std::to_string(publish.packet_id));
        auto& entry = told[user];
        const auto grown = presence.at("version").to_number<std::uint64_t>();
        CHECK(grown >= entry.version);
        entry = {std::string(presence.at("state").as_string()), grown, entry.times + 1};
    }
    return told;
}

const char* retain_handling(int handling) {
    return handling == 0 ? "00" : handling == 1 ? "10" : "20";
}

}  // namespace

TEST_CASE("a new subscriber to everybody's presence is told of every user, within its budget") {
    Gateway gateway([](Config& config) {
        config.max_packet_size = 8 * 1024;
        config.output_budget = 16 * 1024;
    });
    constexpr int users = 1000;
    const Crowd crowd(gateway, users);
    int shard = 0;
    for (const char* filter : {"presence/+", "presence/#"})
        for (const char* qos : {"00", "01"}) {
            CAPTURE(filter);
            CAPTURE(qos);
            Conversation c(gateway, 4096);
            const auto name = at_home(shard++ % 2, "subscriber");
            c.login(name).send("82 r k1 s'" + std::string(filter) + "' " + qos);
            c.expect("90 03 k1 " + std::string(qos));
            // The crowd, and this subscriber and those before it.
            auto told = hear_of(c, users + (shard > 1 ? 2 : 1));
            for (int i = 0; i < users; ++i) {
                const auto user = told.find("user" + std::to_string(i));
                REQUIRE(user != told.end());
                CHECK(user->second.state == "online");
            }
            c.send("e0 00").rest();  // the others hear of it before the close
        }
}

TEST_CASE("a small Receive Maximum slows the snapshot down, and loses nobody") {
    Gateway gateway([](Config& config) {
        config.max_packet_size = 8 * 1024;
        config.output_budget = 16 * 1024;
    });
    const Crowd crowd(gateway, 300);
    Conversation c(gateway);
    c.send("10 r s'MQTT' 05 02 k10 [ 21 k3 ] s'subscriber'").packet();
    c.send("82 r k1 [ ] s'presence/+' 01").expect("90 r k1 [ ] 01");
    CHECK(hear_of(c, 301, v5).size() == 301);
    c.expect_nothing();
}

TEST_CASE("long names don't get a new subscriber cut") {
    Gateway gateway([](Config& config) {
        config.max_packet_size = 8 * 1024;
        config.max_client_id_length = 8 * 1024;
        config.output_budget = 32 * 1024;
    });
    const Crowd crowd(gateway, 60, std::string(4000, 'n'));
    Conversation c(gateway, 4096);
    c.login("subscriber").send("82 r k1 s'presence/+' 00").expect("90 03 k1 00");
    CHECK(hear_of(c, 61).size() == 61);
    c.expect_nothing();
}

TEST_CASE("a change during a snapshot is not overwritten by the snapshot") {
    Gateway gateway;
    constexpr int users = 400;
    Crowd crowd(gateway, users);
    Conversation c(gateway);
    c.login("subscriber").send("82 r k1 s'presence/+' 00").expect("90 03 k1 00");
    for (auto& connection : crowd.connections()) connection.close();
    int offline = 0;
    std::map<std::string, std::uint64_t> versions;
    while (offline < users) {
        const auto packet = c.packet();
        const auto presence = json::parse(std::string(published(packet).payload)).as_object();
        const std::string user(presence.at("user").as_string());
        const auto version = presence.at("version").to_number<std::uint64_t>();
        CHECK(version >= versions[user]);
        const bool news = version > versions[user];
        versions[user] = version;
        if (news && presence.at("state").as_string() == "offline") ++offline;
    }
    // Whatever of the snapshot is still to come agrees.
    c.send("a2 r k2 s'presence/+' | c0 00");
    for (auto packet = c.packet(); packet != wire("d0 00"); packet = c.packet()) {
        if (packet == wire("b0 02 k2")) continue;
        const auto presence = json::parse(std::string(published(packet).payload)).as_object();
        const std::string user(presence.at("user").as_string());
        CHECK(presence.at("version").to_number<std::uint64_t>() >= versions[user]);
    }
}

TEST_CASE("a client that unsubscribes gets no more of a snapshot") {
    Gateway gateway;
    const Crowd crowd(gateway, 1000);
    Conversation c(gateway);
    c.login("subscriber").send("82 r k1 s'presence/+' 00 | a2 r k2 s'presence/+'");
    auto packet = c.packet();
    while (packet != wire("b0 02 k2")) packet = c.packet();
    c.expect_nothing();
    c.send("82 r k3 s'presence/user7' 00").expect("90 03 k3 00");
    const auto other = c.packet();
    CHECK(published(other).topic == "presence/user7");
    c.expect_nothing();
}

TEST_CASE("a subscriber to one user's presence is told of that user alone") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto alice = at_home(shard, "alice");
        Conversation bob(gateway);
        bob.login(at_home(0, "bob"));
        Conversation c(gateway);
        c.login(at_home(0, "subscriber"), v5)
            .send("82 r k1 [ 0b 09 ] s'presence/" + alice + "' 01")
            .expect("90 r k1 [ ] 01")
            .expect_nothing();  // nobody knows her yet
        Conversation phone(gateway);
        phone.login(alice);
        const auto live = c.packet();
        CHECK_FALSE(published(live, v5).retain);  // a live message to an old subscription
        CHECK(published(live, v5).properties.number(Property::subscription_identifier) == 9u);

        Conversation late(gateway);
        late.login(at_home(1, "late"), v5)
            .send("82 r k1 [ 0b 0a ] s'presence/" + alice + "' 01")
            .expect("90 r k1 [ ] 01");
        const auto snapshot = late.packet();
        const auto publish = published(snapshot, v5);
        CHECK(publish.retain);
        CHECK(publish.qos == QoS::at_least_once);
        CHECK(publish.topic == "presence/" + alice);
        CHECK(publish.properties.number(Property::subscription_identifier) == 10u);
        late.send("40 02 k1").expect_nothing();
    }
}

TEST_CASE("a user name with topic characters has a presence topic") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("c").send("82 r k1 s'presence/a%2Fb%2B%23%25' 00").expect("90 03 k1 00");
    Conversation odd(gateway);
    odd.login("a/b+#%");
    const auto packet = c.packet();
    CHECK(published(packet).topic == "presence/a%2Fb%2B%23%25");
    CHECK(published(packet).payload.starts_with(R"({"user":"a/b+#%","state":"online",)"));
    Conversation late(gateway);
    late.login("late").send("82 r k1 s'presence/a%2Fb%2B%23%25' 00").expect("90 03 k1 00");
    const auto snapshot = late.packet();
    CHECK(published(snapshot).topic == "presence/a%2Fb%2B%23%25");
}

TEST_CASE("retain handling decides whether a subscription is told how things stand") {
    Gateway gateway;
    const auto alice = at_home(1, "alice");
    Conversation phone(gateway);
    phone.login(alice);
    Conversation c(gateway);
    c.login(at_home(0, "c"), v5);
    const auto subscribe = [&](int handling) {
        c.send("82 r k1 [ ] s'presence/" + alice + "' " + retain_handling(handling))
            .expect("90 r k1 [ ] 00");
    };
    const auto expect_told = [&] {
        const auto packet = c.packet();
        CHECK(published(packet, v5).topic == "presence/" + alice);
    };
    // Other shards answer later, and a second subscription's answer comes after the first's.
    const auto settle = [&] {
        c.send("82 r k2 [ ] s'presence/" + alice + "/' 00").expect("90 r k2 [ ] 00");
        c.send("a2 r k3 [ ] s'presence/" + alice + "'").packet();
        c.send("82 r k2 [ ] s'presence/" + alice + "' 00").expect("90 r k2 [ ] 00");
        expect_told();
        c.expect_nothing();
        c.send("a2 r k3 [ ] s'presence/" + alice + "'").packet();
    };
    subscribe(2);
    settle();
    subscribe(1);
    expect_told();
    subscribe(1);
    settle();
    subscribe(0);
    expect_told();
    subscribe(0);
    expect_told();
    subscribe(2);
    settle();
}

TEST_CASE("the events file has a line for each change, in order, with the cause") {
    const std::string path = "/tmp/pulsegate-events-test-" + std::to_string(::getpid());
    std::remove(path.c_str());
    {
        Gateway gateway([&](Config& config) { config.events = path; });
        Conversation first(gateway);
        first.login("alice");
        Conversation second(gateway);
        second.login("alice");
        first.expect_close();
        second.send("e0 00").expect_close();
        Conversation third(gateway);
        third.login("alice");
        gateway.stop();
    }
    std::ifstream in(path);
    std::string seen;
    std::uint64_t version = 0;
    for (std::string line; std::getline(in, line);) {
        const auto change = json::parse(line).as_object();
        CHECK(change.size() == 7);
        CHECK(change.at("user").as_string() == "alice");
        CHECK(change.at("client").as_string() == "alice");
        CHECK(change.at("silent_ms").to_number<int>() < 10'000);
        CHECK(change.at("version").to_number<std::uint64_t>() > version);
        version = change.at("version").to_number<std::uint64_t>();
        seen += std::string(change.at("state").as_string()) + " " +
                std::string(change.at("cause").as_string()) + ", ";
    }
    CHECK(seen ==
          "online login, online taken_over, offline logout, online login, offline shutdown, ");
    std::remove(path.c_str());
}

namespace {

/// Reads and acknowledges presence until each of `users` has been told offline as its last word.
void hear_them_go(Conversation& watcher, std::size_t users) {
    std::map<std::string, std::uint64_t> versions;
    std::size_t offline = 0;
    std::map<std::string, bool> gone;
    while (offline < users) {
        const auto packet = watcher.packet();
        const Publish publish = published(packet);
        watcher.send("40 02 k" + std::to_string(publish.packet_id));
        const auto presence = json::parse(std::string(publish.payload)).as_object();
        const std::string user(presence.at("user").as_string());
        if (!user.starts_with("user")) continue;
        const auto version = presence.at("version").to_number<std::uint64_t>();
        REQUIRE(version >= versions[user]);
        versions[user] = version;
        const bool is_gone = presence.at("state").as_string() == "offline";
        if (is_gone && !gone[user]) ++offline;
        if (!is_gone && gone[user]) --offline;
        gone[user] = is_gone;
    }
}

}  // namespace

TEST_CASE(
    "a watcher that can't keep up is told the latest state of everybody, and is not disconnected") {
    constexpr int users = 800;
    Gateway gateway([](Config& config) {
        config.output_budget = 64 * 1024;
        config.max_packet_size = 16 * 1024;
    });
    Conversation watcher(gateway);
    watcher.login("watcher", v4, 600).send("82 r k1 s'presence/+' 01").expect("90 03 k1 01");
    for (int round = 0; round < 2; ++round) Crowd crowd(gateway, users);
    // It has acknowledged nothing so far: more than its window and its budget has happened.
    hear_them_go(watcher, users);
    watcher.send("c0 00");
    while (watcher.packet() != wire("d0 00")) {
    }
}

TEST_CASE("watchers are told that everybody has left before the gateway stops") {
    constexpr int users = 800;
    Gateway gateway([](Config& config) { config.stop_wait = 60'000; });
    Crowd crowd(gateway, users);
    Conversation watcher(gateway);
    watcher.login("watcher", v4, 600).send("82 r k1 s'presence/+' 01").expect("90 03 k1 01");
    hear_of(watcher, users);
    at_once({[&] { gateway.stop(); },
             [&] {
                 hear_them_go(watcher, users);
                 watcher.close();  // what comes twice may be left: the stop would wait for it
             }});
}

TEST_CASE("a slow client that subscribes repeatedly is told the latest presence once") {
    Gateway gateway;
    Conversation watcher(gateway);
    watcher.send("10 r s'MQTT' 05 02 k10 [ 21 k1 ] s'watcher'").packet();
    watcher.send("82 r k1 [ ] s'x' 01").expect("90 r k1 [ ] 01");
    watcher.send("82 r k1 [ ] s'presence/bob' 00").expect("90 r k1 [ ] 00");
    Conversation sender(gateway);
    sender.login("sender").send("32 r s'x' k1 'fills the window'").expect("40 02 k1");
    watcher.expect("32 r s'x' k1 [ ] 'fills the window'");
    for (int round = 0; round < 20; ++round) {
        Conversation bob(gateway);
        bob.login("bob").send("e0 00").expect_close();
        watcher.send("a2 r k1 [ ] s'presence/bob'").expect("b0 r k1 [ ] 00");
        watcher.send("82 r k1 [ ] s'presence/bob' 00").expect("90 r k1 [ ] 00");
    }
    watcher.send("40 02 k1 | a2 r k1 [ ] s'x'");
    int told = 0;
    // One request of each kind may be in progress beside the one that is added to.
    for (auto packet = watcher.packet(); packet[0] != '\xb0'; packet = watcher.packet()) ++told;
    // The presence may come from another shard, and that takes what time it takes.
    if (told == 0) told += (watcher.packet()[0] & '\xf0') == '\x30';
    for (int wait = 0; wait < 50; ++wait) {
        watcher.send("c0 00");
        for (auto packet = watcher.packet(); packet[0] != '\xd0'; packet = watcher.packet()) ++told;
    }
    CHECK(told >= 1);
    CHECK(told <= 3);
}
