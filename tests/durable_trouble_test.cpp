// What clients are told while the store refuses everything.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"
#include "tests/support/faulty_vfs.h"

using namespace pulsegate;

namespace {

void mend_store(DurableCluster& brokers) {
    brokers.disk().mend();
    brokers->now += 1000;
    while (brokers->broker(0).tick(brokers->now)) {
    }
    brokers.settle();
}

/// Publishes by the HTTP API, which needs no store at QoS 0.
void publish_to_all(DurableCluster& brokers, const std::string& topic, QoS qos) {
    Message message;
    message.topic = topic;
    message.payload = "news";
    message.qos = qos;
    brokers->broker(0).admin().publish(
        std::move(message), [](const Published&) {}, brokers->now);
    brokers->end_turn();
    brokers.settle();
}

/// A client with a stored session. Its earlier packets are answered.
void begin(DurableCluster& brokers, PlainClient& client) {
    client.connect(false);
    brokers.settle();
    client.take();
}

/// The disk breaks down, and the refused SUBSCRIBE of this client has shown the trouble.
void break_disk(DurableCluster& brokers, PlainClient& client, const std::string& subscribe) {
    brokers.disk().break_down(SQLITE_FULL);
    client.send(subscribe);
    brokers.settle();
    client.take();
}

std::vector<QoS> received(PlainClient& client) {
    std::vector<QoS> all;
    for (const auto& message : client.take_messages()) all.push_back(message.qos);
    return all;
}

void crash_and_return(DurableCluster& brokers, PlainClient& client) {
    brokers.settle();
    brokers.crash();
    begin(brokers, client);
}

}  // namespace

TEST_CASE("a SUBSCRIBE that the store refuses is answered so, and makes no subscription") {
    for (const Version version : {Version::v3_1_1, Version::v5_0}) {
        const std::string properties = version == Version::v5_0 ? " [ ]" : "";
        const std::string refused = version == Version::v5_0 ? " [ ] 97" : " 80";
        DurableCluster brokers;
        PlainClient phone(brokers, "phone", "phone", version);
        begin(brokers, phone);
        brokers.disk().break_down(SQLITE_FULL);
        phone.send("82 r k1" + properties + " s'x' 01");  // it was handed in
        CHECK(phone.take().empty());
        brokers.settle();
        CHECK(phone.take() == hex(wire("90 r k1" + refused)));
        phone.send("82 r k2" + properties + " s'y' 01");  // the trouble is known
        CHECK(phone.take() == hex(wire("90 r k2" + refused)));
        for (const char* topic : {"x", "y"}) publish_to_all(brokers, topic, QoS::at_most_once);
        CHECK(received(phone).empty());
        CHECK_FALSE(phone.link().ending);
        mend_store(brokers);
        for (const char* topic : {"x", "y"}) publish_to_all(brokers, topic, QoS::at_least_once);
        CHECK(received(phone).empty());
        crash_and_return(brokers, phone);
        for (const char* topic : {"x", "y"}) publish_to_all(brokers, topic, QoS::at_least_once);
        CHECK(received(phone).empty());
        phone.send("82 r k3" + properties + " s'x' 01");
        brokers.settle();
        publish_to_all(brokers, "x", QoS::at_least_once);
        CHECK(received(phone).size() == 1);
    }
}

TEST_CASE("3.1 can't be told that a subscription is refused, so its client is disconnected") {
    const std::string login = "10 r s'MQIsdp' 03 00 k60 s'old'";
    for (const bool is_known : {false, true}) {
        DurableCluster brokers;
        PlainClient old(brokers, "old", "old", Version::v3_1);
        PlainClient other(brokers, "other");
        old.connect(login);
        begin(brokers, other);
        old.take();
        brokers.disk().break_down(SQLITE_FULL);
        if (is_known) {
            other.send("82 r k1 s'y' 01");
            brokers.settle();
        }
        old.send("82 r k1 s'x' 01");
        if (!is_known) brokers.settle();
        CHECK(old.take().empty());
        CHECK(old.link().ending);
        mend_store(brokers);
        old.connect(login);
        brokers.settle();
        publish_to_all(brokers, "x", QoS::at_least_once);
        CHECK(received(old).empty());
    }
}

TEST_CASE("a member that the store refuses leaves its group, wherever the group is") {
    for (const unsigned shards : {1u, 2u, 3u}) {
        DurableCluster brokers(shards);
        PlainClient member(brokers, "member");
        PlainClient refused(brokers, "refused");
        for (PlainClient* each : {&member, &refused}) begin(brokers, *each);
        member.send("82 r k1 s'$share/group/x' 01");
        brokers.settle();
        member.take();
        brokers.disk().break_down(SQLITE_FULL);
        refused.send("82 r k1 s'$share/group/x' 01");
        brokers.settle();
        CHECK(refused.take() == hex(wire("90 r k1 80")));
        brokers.disk().mend();
        for (unsigned shard = 0; shard < shards; ++shard) {
            brokers->now += 1000;
            while (brokers->broker(shard).tick(brokers->now)) {
            }
            brokers.settle();
        }
        for (int i = 0; i < 4; ++i) publish_to_all(brokers, "x", QoS::at_most_once);
        CHECK(received(member).size() == 4);
        CHECK(received(refused).empty());
    }
}

TEST_CASE("a subscription keeps its options if the store refuses others") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    begin(brokers, phone);
    phone.send("82 r k1 s'x' 01");
    brokers.settle();
    CHECK(phone.take() == hex(wire("90 r k1 01")));
    brokers.disk().break_down(SQLITE_FULL);
    // The last one replaces the first ones before the store has refused them.
    phone.send("82 r k2 s'x' 00");
    phone.send("82 r k3 s'x' 02 s'y' 00 s'x' 00");
    brokers.settle();
    CHECK(phone.take() == hex(wire("90 r k2 80") + wire("90 r k3 80 80 80")));
    publish_to_all(brokers, "y", QoS::at_most_once);
    mend_store(brokers);
    publish_to_all(brokers, "x", QoS::exactly_once);
    publish_to_all(brokers, "y", QoS::exactly_once);
    CHECK(received(phone) == std::vector<QoS>{QoS::at_least_once});
    crash_and_return(brokers, phone);
    phone.take();
    publish_to_all(brokers, "x", QoS::exactly_once);
    publish_to_all(brokers, "y", QoS::exactly_once);
    CHECK(received(phone) == std::vector<QoS>{QoS::at_least_once});
}

TEST_CASE("an UNSUBSCRIBE that the store refuses is answered when the store works again") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    begin(brokers, phone);
    phone.send("82 r k1 s'x' 01 s'y' 01 s'z' 01");
    brokers.settle();
    phone.take();
    brokers.disk().break_down(SQLITE_FULL);
    phone.send("82 r k2 s'x' 00");
    phone.send("A2 r k3 s'x'");
    brokers.settle();
    CHECK(phone.take() == hex(wire("90 r k2 80")));
    phone.send("A2 r k4 s'y'");  // the trouble is known
    brokers.settle();
    CHECK(phone.take().empty());
    CHECK_FALSE(phone.link().ending);
    SUBCASE("and the subscription has ended") {
        mend_store(brokers);
        CHECK(phone.take() == hex(wire("B0 r k3") + wire("B0 r k4")));
        crash_and_return(brokers, phone);
        for (const char* topic : {"x", "y", "z"})
            publish_to_all(brokers, topic, QoS::at_least_once);
        CHECK(received(phone).size() == 1);
    }
    SUBCASE("or the subscription is back after a crash, when nobody was told that it has ended") {
        brokers.disk().mend();
        brokers.crash();
        begin(brokers, phone);
        for (const char* topic : {"x", "y", "z"})
            publish_to_all(brokers, topic, QoS::at_least_once);
        CHECK(received(phone).size() == 3);
    }
}

TEST_CASE("while the store refuses, UNSUBSCRIBE of 5.0 is refused and changes nothing") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone", "phone", Version::v5_0);
    begin(brokers, phone);
    phone.send("82 r k1 [ ] s'x' 01");
    brokers.settle();
    phone.take();
    break_disk(brokers, phone, "82 r k2 [ ] s'y' 01");
    phone.send("A2 r k3 [ ] s'x' s'y'");
    CHECK(phone.take() == hex(wire("B0 r k3 [ ] 83 11")));
    publish_to_all(brokers, "x", QoS::at_most_once);
    CHECK(received(phone).size() == 1);
    mend_store(brokers);
    phone.send("A2 r k4 [ ] s'x'");
    brokers.settle();
    CHECK(phone.take() == hex(wire("B0 r k4 [ ] 00")));
    CHECK_FALSE(phone.link().ending);
}

TEST_CASE("a message of QoS 2 that the store refuses too late is answered when it is stored") {
    for (const Version version : {Version::v3_1_1, Version::v5_0}) {
        for (const bool crashes : {false, true}) {
            const std::string topic = version == Version::v5_0 ? " s'x' k5 [ ]" : " s'x' k5";
            DurableCluster brokers;
            PlainClient away(brokers, "away");
            PlainClient desk(brokers, "desk", "desk", version);
            arrive(away, "x");
            brokers.settle();
            away.lose_connection();
            begin(brokers, desk);
            brokers.disk().break_down(SQLITE_FULL);
            desk.send("34 r" + topic + " 'first'");
            brokers.settle();
            CHECK(desk.take().empty());
            CHECK_FALSE(desk.link().ending);
            if (crashes) {
                brokers.disk().mend();
                brokers.crash();
            } else {
                mend_store(brokers);
                CHECK(desk.take() == hex(wire("50 r k5")));
                desk.lose_connection();
            }
            begin(brokers, desk);
            desk.send("3C r" + topic + " 'first'");  // it has missed the PUBREC
            brokers.settle();
            CHECK(desk.take() == hex(wire("50 r k5")));
            away.connect(false);
            brokers.settle();
            CHECK(received(away).size() == 1);
        }
    }
}

TEST_CASE("while the store refuses, a QoS 2 publisher of 5.0 with a stored session stays") {
    DurableCluster brokers;
    PlainClient desk(brokers, "desk", "desk", Version::v5_0);
    begin(brokers, desk);
    break_disk(brokers, desk, "82 r k1 [ ] s'y' 01");
    for (const char* reserved : {"x", "$delayed/1/x"}) {
        desk.send("34 r s'" + std::string(reserved) + "' k5 [ ] 'hello'");
        CHECK(desk.take() == hex(wire("50 r k5 97")));
    }
    CHECK_FALSE(desk.link().ending);
    mend_store(brokers);
    desk.send("34 r s'x' k5 [ ] 'hello'");  // the identifier is free
    brokers.settle();
    CHECK(desk.take() == hex(wire("50 r k5 10")));
}

TEST_CASE("while the store refuses, 3.1.1 is disconnected only for a message of QoS 1 or 2") {
    DurableCluster brokers;
    PlainClient desk(brokers, "desk");
    begin(brokers, desk);
    break_disk(brokers, desk, "82 r k1 s'y' 01");
    desk.send("30 r s'presence/me' 'hello'");  // which is refused at any time
    desk.send("32 r s'presence/me' k2 'hello'");
    CHECK(desk.take() == hex(wire("40 r k2")));
    CHECK_FALSE(desk.link().ending);
    desk.send("32 r s'x' k3 'hello'");
    CHECK(desk.link().ending);
}

TEST_CASE("while much waits for the store, a retained message of QoS 0 is dropped") {
    BrokerSettings settings;
    settings.most_unstored_bytes = 0;
    DurableCluster brokers(1, settings);
    PlainClient desk(brokers, "desk");
    begin(brokers, desk);
    desk.send("82 r k1 s'y' 01");
    brokers.settle();
    break_disk(brokers, desk, "82 r k2 s'y' 00");
    desk.send("31 r s'y' 'hello'");
    CHECK(desk.take().empty());
    CHECK_FALSE(desk.link().ending);
}

TEST_CASE("acknowledgements of QoS 2 wait while the store refuses") {
    for (const Version version : {Version::v3_1_1, Version::v5_0}) {
        const std::string properties = version == Version::v5_0 ? " [ ]" : "";
        DurableCluster brokers;
        PlainClient phone(brokers, "phone", "phone", version);
        begin(brokers, phone);
        phone.send("82 r k1" + properties + " s'x' 02");
        phone.send("34 r s'y' k7" + properties + " 'mine'");
        brokers.settle();
        publish_to_all(brokers, "x", QoS::exactly_once);
        const auto messages = phone.take_messages();
        REQUIRE(messages.size() == 1);
        const std::string id = " k" + std::to_string(messages[0].packet_id);
        brokers.disk().break_down(SQLITE_FULL);
        phone.send("50 r" + id);  // PUBREC
        phone.send("62 r k7");    // PUBREL
        brokers.settle();
        CHECK(phone.take().empty());
        phone.send("62 r k99");  // released long ago, for all that is known
        brokers.settle();
        CHECK(phone.take().empty());
        CHECK_FALSE(phone.link().ending);
        mend_store(brokers);
        const std::string unknown = version == Version::v5_0 ? "70 r k99 92" : "70 r k99";
        CHECK(phone.take() == hex(wire("62 r" + id) + wire("70 r k7") + wire(unknown)));
    }
}

TEST_CASE("a publisher of 5.0 at QoS 2 without a stored session is refused, and stays") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk", "desk", Version::v5_0);
    arrive(phone, "x");
    brokers.settle();
    phone.lose_connection();
    desk.connect(true);
    brokers.settle();
    desk.take();
    brokers.disk().break_down(SQLITE_FULL);
    desk.send("34 r s'x' k5 [ ] 'first'");
    brokers.settle();
    CHECK(desk.take() == hex(wire("50 r k5 97")));
    CHECK_FALSE(desk.link().ending);
    mend_store(brokers);
    desk.send("34 r s'x' k5 [ ] 'second'");  // the identifier is free
    brokers.settle();
    CHECK(desk.take() == hex(wire("50 r k5")));
    phone.connect(false);
    brokers.settle();
    std::vector<std::string> texts;
    for (const auto& message : phone.take_messages()) texts.push_back(message.text);
    // The first one was handed in already, and is stored when the store works again.
    CHECK(texts == std::vector<std::string>{"first", "second"});
}
