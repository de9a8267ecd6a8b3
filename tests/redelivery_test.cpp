// What was in flight when the gateway ended is sent again (MQTT 5.0, 4.4): with which packet
// identifier, and with DUP or without.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"

using namespace pulsegate;

namespace {

/// A client with a session that subscribes to x.
PlainClient& subscribed(PlainClient& client, bool is_new) {
    client.connect(false);
    client.send(is_new ? "82 r k1 [] s'x' 02" : "82 r k1 s'x' 02");
    return client;
}

void publish(DurableCluster& brokers, PlainClient& from, const std::string& text,
             QoS qos = QoS::at_least_once) {
    static int number = 0;
    const std::string id = " k" + std::to_string(++number % 60'000 + 1);
    const bool is_once = qos == QoS::exactly_once;
    from.send(std::string(is_once ? "34" : "32") + " r s'x'" + id + " '" + text + "'");
    brokers.settle();
    pass(brokers, 110);  // the wait for a receiver that does not acknowledge is over
    brokers.settle();
    if (is_once) from.send("62 r2" + id);
    brokers.settle();
}

/// What lags behind is stored.
void tick(DurableCluster& brokers) {
    pass(brokers, 1000);
    for (unsigned shard = 0; shard < brokers->shards(); ++shard)
        while (brokers->broker(shard).tick(brokers->now)) {
        }
    brokers.settle();
}

/// As SIGTERM does, and another start.
void restart(DurableCluster& brokers) {
    brokers.stop();
    brokers.start();
}

std::vector<PlainClient::Message> messages_on_return(DurableCluster& brokers, PlainClient& client) {
    client.connect(false);
    brokers.settle();
    return client.take_messages();
}

/// Text, packet identifier, and "again" if it has DUP.
std::string told(const std::vector<PlainClient::Message>& messages) {
    std::string text;
    for (const auto& each : messages)
        text += each.text + " " + std::to_string(each.packet_id) + (each.dup ? " again, " : ", ");
    return text;
}

/// The same without the identifiers, which nobody can know.
std::string told_without_identifiers(const std::vector<PlainClient::Message>& messages) {
    std::string text;
    for (const auto& each : messages) text += each.text + (each.dup ? " again, " : ", ");
    return text;
}

void acknowledge(DurableCluster& brokers, PlainClient& client, std::uint16_t packet_id) {
    client.send("40 r2 k" + std::to_string(packet_id));
    brokers.settle();
}

/// Each test plays a client of 3.1.1 and one of 5.0.
struct Scene {
    explicit Scene(Version version, unsigned shards = 1)
        : brokers(shards),
          phone(brokers, client_at(shards - 1, shards, "phone"),
                client_at(shards - 1, shards, "phone"), version) {
        subscribed(phone, version == Version::v5_0);
        desk.connect(true);
        brokers.settle();
        phone.take();
    }

    DurableCluster brokers;
    PlainClient phone;
    PlainClient desk{brokers, "desk"};
};

constexpr Version versions[] = {Version::v3_1_1, Version::v5_0};

}  // namespace

TEST_CASE("after a stop, messages come with identifier and DUP") {
    for (const Version version : versions)
        for (const unsigned shards : {1u, 2u}) {
            Scene scene(version, shards);
            publish(scene.brokers, scene.desk, "one");
            publish(scene.brokers, scene.desk, "two", QoS::exactly_once);
            publish(scene.brokers, scene.desk, "three");
            CHECK(told(scene.phone.take_messages()) == "one 1, two 2, three 3, ");
            restart(scene.brokers);
            auto messages = messages_on_return(scene.brokers, scene.phone);
            std::ranges::sort(messages, {}, &PlainClient::Message::packet_id);
            CHECK(told(messages) == "one 1 again, two 2 again, three 3 again, ");
        }
}

TEST_CASE("a message that was sent a moment before a stop comes with its identifier and DUP") {
    for (const Version version : versions) {
        Scene scene(version);
        scene.desk.send("32 r s'x' k1 'one'");  // it is not stored yet
        CHECK(told(scene.phone.take_messages()) == "one 1, ");
        restart(scene.brokers);
        CHECK(told(messages_on_return(scene.brokers, scene.phone)) == "one 1 again, ");
    }
}

TEST_CASE("after a crash, messages that were in flight for a second come with their identifiers") {
    for (const Version version : versions) {
        Scene scene(version);
        publish(scene.brokers, scene.desk, "one");
        publish(scene.brokers, scene.desk, "two", QoS::exactly_once);
        publish(scene.brokers, scene.desk, "three");
        tick(scene.brokers);
        publish(scene.brokers, scene.desk, "four");
        scene.phone.take();
        scene.brokers.crash();
        auto messages = messages_on_return(scene.brokers, scene.phone);
        REQUIRE(messages.size() == 4);
        std::ranges::sort(messages, {}, &PlainClient::Message::packet_id);
        CHECK(told({messages.begin(), messages.begin() + 3}) ==
              "one 1 again, two 2 again, three 3 again, ");
        CHECK(messages[3].text == "four");
        CHECK(messages[3].dup);
    }
}

TEST_CASE("a message in flight is sent before those that waited, and these have no DUP") {
    Scene scene(Version::v3_1_1);
    publish(scene.brokers, scene.desk, "one");
    scene.phone.lose_connection();
    publish(scene.brokers, scene.desk, "two");
    publish(scene.brokers, scene.desk, "three", QoS::exactly_once);
    scene.brokers.crash();
    CHECK(told_without_identifiers(messages_on_return(scene.brokers, scene.phone)) ==
          "one again, two, three, ");
}

TEST_CASE("messages that came while a client was away have no DUP after a crash") {
    for (const Version version : versions) {
        Scene scene(version);
        scene.phone.lose_connection();
        publish(scene.brokers, scene.desk, "one");
        scene.brokers.crash();
        SUBCASE("and its client comes") {}
        SUBCASE("nor after the next one") { scene.brokers.crash(); }
        CHECK(told_without_identifiers(messages_on_return(scene.brokers, scene.phone)) == "one, ");
    }
}

TEST_CASE("waiting messages are sent when the client's return is stored") {
    for (const Version version : versions) {
        Scene scene(version);
        scene.phone.lose_connection();
        publish(scene.brokers, scene.desk, "one");
        scene.phone.connect(false);
        scene.brokers.deliver();
        CHECK(scene.phone.take().empty());
        std::string expected = "one, ";
        SUBCASE("a crash comes before") {}
        SUBCASE("a crash comes behind") {
            scene.brokers.settle();
            CHECK(told_without_identifiers(scene.phone.take_messages()) == "one, ");
            expected = "one again, ";
        }
        scene.brokers.crash();
        CHECK(told_without_identifiers(messages_on_return(scene.brokers, scene.phone)) == expected);
    }
}

TEST_CASE("a client without waiting messages does not wait for the disk when it comes back") {
    Scene scene(Version::v3_1_1);
    scene.phone.lose_connection();
    scene.brokers.settle();
    scene.phone.connect(false);
    CHECK(scene.phone.take() == hex(wire("20 r2 01 00")));
}

TEST_CASE("after two crashes, the gateway still knows that a message may have been sent") {
    for (const Version version : versions) {
        Scene scene(version);
        publish(scene.brokers, scene.desk, "one");
        scene.brokers.crash();
        scene.brokers.settle();
        scene.desk.connect(true);
        publish(scene.brokers, scene.desk, "two");
        scene.brokers.crash();
        CHECK(told_without_identifiers(messages_on_return(scene.brokers, scene.phone)) ==
              "one again, two, ");
    }
}

TEST_CASE("a packed session knows what may have been sent") {
    Scene scene(Version::v5_0);
    publish(scene.brokers, scene.desk, "one");
    scene.brokers.crash();
    scene.brokers.settle();
    scene.brokers->broker(0).pack_all(scene.brokers->now);
    CHECK(told_without_identifiers(messages_on_return(scene.brokers, scene.phone)) ==
          "one again, ");
}

TEST_CASE("no message gets an identifier that was in flight before a restart") {
    Scene scene(Version::v3_1_1);
    for (const char* text : {"one", "two", "three"}) publish(scene.brokers, scene.desk, text);
    restart(scene.brokers);
    scene.desk.connect(true);
    CHECK(messages_on_return(scene.brokers, scene.phone).size() == 3);
    for (const char* text : {"four", "five"}) publish(scene.brokers, scene.desk, text);
    for (const auto& each : scene.phone.take_messages()) CHECK(each.packet_id > 3);
}

TEST_CASE("messages that are acknowledged after a restart do not come again") {
    for (const Version version : versions) {
        Scene scene(version);
        publish(scene.brokers, scene.desk, "one");
        publish(scene.brokers, scene.desk, "two");
        restart(scene.brokers);
        CHECK(messages_on_return(scene.brokers, scene.phone).size() == 2);
        acknowledge(scene.brokers, scene.phone, 1);
        restart(scene.brokers);
        CHECK(told(messages_on_return(scene.brokers, scene.phone)) == "two 2 again, ");
        acknowledge(scene.brokers, scene.phone, 2);
        scene.brokers.crash();
        CHECK(messages_on_return(scene.brokers, scene.phone).empty());
    }
}

TEST_CASE("a Receive Maximum holds for what is sent again after a restart") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone", "phone", Version::v5_0);
    PlainClient desk(brokers, "desk");
    phone.receive_maximum = 2;
    subscribed(phone, true);
    desk.connect(true);
    brokers.settle();
    for (const char* text : {"one", "two", "three"}) publish(brokers, desk, text);
    CHECK(told(phone.take_messages()) == "one 1, two 2, ");
    restart(brokers);
    phone.receive_maximum = 1;
    CHECK(told(messages_on_return(brokers, phone)) == "one 1 again, ");
    acknowledge(brokers, phone, 1);
    CHECK(told(phone.take_messages()) == "two 2 again, ");
    acknowledge(brokers, phone, 2);
    CHECK(told_without_identifiers(phone.take_messages()) == "three, ");
}

TEST_CASE("unacknowledged messages of a group's last member come again after a stop") {
    DurableCluster brokers(2);
    PlainClient phone(brokers, client_at(1, 2, "phone"));
    PlainClient desk(brokers, client_at(0, 2, "desk"));
    phone.connect(false);
    phone.send("82 r k1 s'$share/g/x' 01");
    desk.connect(true);
    brokers.settle();
    phone.take();
    publish(brokers, desk, "one");
    CHECK(told(phone.take_messages()) == "one 1, ");
    restart(brokers);
    CHECK(told(messages_on_return(brokers, phone)) == "one 1 again, ");
}

TEST_CASE("another member of a group is sent what the first had, as a new message") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient other(brokers, "other");
    PlainClient desk(brokers, "desk");
    phone.connect(false);
    phone.send("82 r k1 s'$share/g/x' 01");
    desk.connect(true);
    brokers.settle();
    publish(brokers, desk, "one");
    restart(brokers);
    other.connect(false);
    other.send("82 r k1 s'$share/g/x' 01");
    brokers.settle();
    phone.connect(false);
    brokers.settle();
    phone.lose_connection();  // and now it goes to the other one
    brokers.settle();
    CHECK(told(other.take_messages()) == "one 1, ");
    acknowledge(brokers, other, 1);
    brokers.crash();
    CHECK(messages_on_return(brokers, phone).empty());
    CHECK(messages_on_return(brokers, other).empty());
}

TEST_CASE("retained messages of a new subscription don't come again after a stop") {
    Scene scene(Version::v3_1_1);
    for (const char* topic : {"r/1", "r/2", "r/3"})
        scene.desk.send("33 r s'" + std::string(topic) + "' k1 '" + topic + "'");
    scene.brokers.settle();
    scene.phone.send("82 r k1 s'r/#' 01");
    scene.brokers.settle();
    CHECK(scene.phone.take_messages().size() == 3);
    acknowledge(scene.brokers, scene.phone, 2);
    restart(scene.brokers);
    CHECK(told(messages_on_return(scene.brokers, scene.phone)) == "r/1 1 again, r/3 3 again, ");
    acknowledge(scene.brokers, scene.phone, 1);
    acknowledge(scene.brokers, scene.phone, 3);
    scene.brokers.crash();
    CHECK(messages_on_return(scene.brokers, scene.phone).empty());
}

TEST_CASE("retained messages of before the last second don't come again after a crash") {
    Scene scene(Version::v3_1_1);
    scene.desk.send("33 r s'r/1' k1 'kept'");
    scene.brokers.settle();
    scene.phone.send("82 r k1 s'r/#' 01");
    scene.brokers.settle();
    acknowledge(scene.brokers, scene.phone, 1);
    scene.brokers->now += 1000;
    static_cast<void>(scene.brokers->broker(0).tick(scene.brokers->now));
    scene.brokers.deliver();
    scene.brokers.commit_urgent();
    scene.brokers.crash();
    CHECK(messages_on_return(scene.brokers, scene.phone).empty());
}
