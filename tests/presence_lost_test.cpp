// Presence at QoS 0 that was sent to a dead connection.
#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "tests/support/durable_cluster.h"
#include "tests/support/restarted_world.h"

using namespace pulsegate;

namespace {

/// The state of ann in the latest message about her; "": there is none.
std::string shown_of_ann(PlainClient& watcher) {
    std::string state;
    for (const auto& message : watcher.take_messages()) {
        const auto presence = boost::json::parse(message.text).as_object();
        if (presence.at("user") == "ann") state = presence.at("state").as_string();
    }
    return state;
}

/// The client has a session, and has just been heard.
void connect_audibly(DurableCluster& brokers, PlainClient& client) {
    client.connect(false);
    client.link().heard = brokers->now;
}

}  // namespace

TEST_CASE("a client that comes back is told the presence that was sent to its dead connection") {
    for (const char* filter : {"presence/ann", "presence/+", "presence/#"})
        for (const bool takes_over : {false, true}) {
            CAPTURE(filter);
            CAPTURE(takes_over);
            DurableCluster brokers(2);
            PlainClient ann(brokers, "ann");
            PlainClient watcher(brokers, "watcher");
            ann.connect(true);
            connect_audibly(brokers, watcher);
            watcher.send("82 r k1 s'" + std::string(filter) + "' 00");
            brokers.settle();
            CHECK(shown_of_ann(watcher) == "online");
            brokers->now += 200'000;
            watcher.link().heard = brokers->now;  // so that has arrived
            ann.lose_connection();
            brokers.settle();
            REQUIRE(shown_of_ann(watcher) == "offline");  // it does not arrive
            brokers->now += 60'000;
            if (!takes_over) watcher.lose_connection();
            connect_audibly(brokers, watcher);
            brokers.settle();
            CHECK(shown_of_ann(watcher) == "offline");
        }
}

TEST_CASE(
    "a client that comes back is told presence that did not arrive, though the clock was set "
    "ahead") {
    World world;
    PlainClient ann(world.brokers, "ann");
    PlainClient watcher(world.brokers, "watcher");
    ann.connect(true);
    connect_audibly(world.brokers, watcher);
    watcher.send("82 r k1 s'presence/ann' 00");
    world.brokers.settle();
    world.wait(200);
    world.brokers.settle();  // the store keeps its floor ahead of the clock
    watcher.link().heard = world.brokers->now;
    watcher.take();
    ann.lose_connection();
    world.brokers.settle();
    REQUIRE(shown_of_ann(watcher) == "offline");
    world.set_ahead(3600);
    watcher.lose_connection();
    connect_audibly(world.brokers, watcher);
    world.brokers.settle();
    CHECK(shown_of_ann(watcher) == "offline");
}

TEST_CASE("a client that comes back is told old states again until it answers") {
    DurableCluster brokers(1, {}, false);
    static_cast<void>(
        brokers->broker(0).restore().user({.name = "ann",
                                           .version = 1000,
                                           .since = 1000,
                                           .last_seen = 1000,
                                           .cause = static_cast<std::uint8_t>(Cause::logout)},
                                          brokers->now));
    PlainClient watcher(brokers, "watcher");
    connect_audibly(brokers, watcher);
    watcher.send("82 r k1 s'presence/ann' 00");
    for (int connections = 0; connections < 3; ++connections) {
        brokers.settle();
        REQUIRE(shown_of_ann(watcher) == "offline");
        watcher.lose_connection();
        connect_audibly(brokers, watcher);
    }
    brokers.settle();
    CHECK(shown_of_ann(watcher) == "offline");
    brokers->now += 200'000;  // more than its limit of silence
    watcher.link().heard = brokers->now;
    watcher.lose_connection();
    connect_audibly(brokers, watcher);
    brokers.settle();
    CHECK(shown_of_ann(watcher).empty());
}
