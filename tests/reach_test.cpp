// What a publisher that is not a client is told of its message, and when.
#include <doctest/doctest.h>

#include <list>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/durable_cluster.h"

using namespace pulsegate;

namespace {

/// Two shards, and what the first has said of the last message.
struct Scene {
    explicit Scene(const BrokerSettings& settings = {}) : brokers(2, settings) {}

    PlainClient& add(const std::string& name, const std::string& filter, int qos) {
        PlainClient& client = clients.emplace_back(brokers, name);
        client.connect(false);
        client.send("82 r k1 s'" + filter + "' 0" + std::to_string(qos));
        brokers.settle();
        client.take();
        return client;
    }
    void publish(const std::string& topic, QoS qos) {
        said.reset();
        Message message{.topic = topic, .payload = "hello", .properties = {}, .qos = qos};
        brokers->broker(0).admin().publish(
            std::move(message), [this](const Published& what) { said = what; }, brokers->now);
        brokers->end_turn();
    }
    /// Once everything has arrived and is stored.
    Reach reach_of(const std::string& topic, QoS qos) {
        publish(topic, qos);
        brokers.settle();
        brokers->now += 1000;
        brokers->store_overdue();
        brokers.settle();
        REQUIRE(said.has_value());
        CHECK_FALSE(said->refused);
        return said->reach;
    }

    DurableCluster brokers;
    std::list<PlainClient> clients;
    std::optional<Published> said;
};

void check(const Reach& reach, unsigned sent, unsigned queued, unsigned dropped = 0) {
    CHECK(reach.sent == sent);
    CHECK(reach.queued == queued);
    CHECK(reach.dropped == dropped);
}

constexpr auto any_qos = {QoS::at_most_once, QoS::at_least_once, QoS::exactly_once};

}  // namespace

TEST_CASE("a message reaches clients that are connected, and waits for those that are away") {
    Scene scene;
    for (const char* name : {"a", "b", "c"}) scene.add(name, "room/+", 1);
    for (const char* name : {"d", "e"}) scene.add(name, "room/+", 1).lose_connection();
    scene.brokers.settle();
    check(scene.reach_of("room/x", QoS::at_least_once), 3, 2);
    check(scene.reach_of("room/x", QoS::exactly_once), 3, 2);
    check(scene.reach_of("room/x", QoS::at_most_once), 3, 0);
    for (const QoS qos : any_qos) check(scene.reach_of("nobody/x", qos), 0, 0);
}

TEST_CASE("an inbox keeps a message for a user that was never connected") {
    Scene scene;
    check(scene.reach_of("inbox/a", QoS::at_least_once), 0, 1);
    check(scene.reach_of("inbox/b", QoS::at_least_once), 0, 1);
    check(scene.reach_of("inbox/b", QoS::at_most_once), 0, 0);
}

TEST_CASE("a shared subscription counts for one") {
    Scene scene;
    for (const char* name : {"a", "b", "c"}) scene.add(name, "$share/workers/x", 1);
    for (const QoS qos : any_qos) check(scene.reach_of("x", qos), 1, 0);
    for (PlainClient& client : scene.clients) client.lose_connection();
    scene.brokers.settle();
    check(scene.reach_of("x", QoS::at_least_once), 0, 1);
    check(scene.reach_of("x", QoS::at_most_once), 0, 0);
}

TEST_CASE("receivers that are left to later turns are counted as well") {
    BrokerSettings settings;
    settings.recipients_a_turn = 2;
    Scene scene(settings);
    for (int i = 0; i < 12; ++i) scene.add("client" + std::to_string(i), "x", 1);
    scene.clients.back().lose_connection();
    scene.add("worker", "$share/workers/x", 1);
    scene.brokers.settle();
    check(scene.reach_of("x", QoS::at_least_once), 12, 1);
    check(scene.reach_of("x", QoS::at_most_once), 12, 0);
}

TEST_CASE("the publisher is told how many queues had no room") {
    BrokerSettings settings;
    settings.max_queued_bytes = 1;  // an empty queue takes a message of any size
    Scene scene(settings);
    scene.add("a", "x", 1).lose_connection();
    scene.brokers.settle();
    check(scene.reach_of("x", QoS::at_least_once), 0, 1);
    const Reach second = scene.reach_of("x", QoS::at_least_once);
    CHECK(second.queued + second.dropped == 1);
}

TEST_CASE("the publisher is told when the message is stored, and if it is not") {
    Scene scene;
    scene.add("a", "x", 1).lose_connection();
    scene.brokers.settle();
    scene.publish("x", QoS::at_least_once);
    scene.brokers.deliver();
    CHECK_FALSE(scene.said.has_value());
    scene.brokers.settle();
    CHECK(scene.said.has_value());

    scene.brokers.disk().fail_at(scene.brokers.disk().steps() + 1, FaultyDisk::Fault::full, 3);
    scene.publish("x", QoS::at_least_once);
    scene.brokers.settle();
    REQUIRE(scene.said.has_value());
    CHECK(scene.said->refused);
}
