// What must not overtake what on its way through a store: one case each.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"

using namespace pulsegate;

namespace {

std::string joined_texts(PlainClient& client) {
    std::string all;
    for (const auto& each : client.take_messages()) all += (all.empty() ? "" : " ") + each.text;
    return all;
}

/// The publisher keeps a session, and has published m1 at QoS 2, which is not committed.
void publish_first(DurableCluster& brokers, PlainClient& publisher, const std::string& topic) {
    publisher.connect(false);
    brokers.settle();
    publisher.send("34 r s'" + topic + "' k1 'm1'");
}

/// What the receiver gets when its publisher has sent m1 and m2 again, at QoS 2 and 1.
std::string texts_after_crash(DurableCluster& brokers, PlainClient& receiver,
                              PlainClient& publisher) {
    brokers.crash();
    publisher.connect(false);
    publisher.send("3c r s't' k1 'm1'");
    publisher.send("3a r s't' k2 'm2'");
    brokers.settle();
    receiver.connect(false);
    brokers.settle();
    return joined_texts(receiver);
}

}  // namespace

TEST_CASE("nothing overtakes a message that waits for its commit, whatever the QoS") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    arrive(phone, "t");
    brokers.settle();
    phone.take();
    publish_first(brokers, desk, "t");
    desk.send("32 r s't' k2 'm2'");
    desk.send("30 r s't' 'm3'");
    CHECK(phone.take().empty());
    brokers.settle();
    CHECK(joined_texts(phone) == "m1 m2 m3");
}

TEST_CASE("messages that waited at alternating QoS come in order") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    arrive(phone, "t");
    brokers.settle();
    phone.lose_connection();
    desk.connect(true);
    std::string sent;
    for (int i = 1; i <= 40; ++i) {
        const std::string number = std::to_string(i);
        desk.send((i % 2 ? "34" : "32") + (" r s't' k" + number) + " '" + number + "'");
        sent += (i == 1 ? "" : " ") + number;
    }
    brokers.settle();
    SUBCASE("in memory") {}
    SUBCASE("from the disk") { brokers.crash(); }
    phone.connect(false);
    brokers.settle();
    CHECK(joined_texts(phone) == sent);
}

TEST_CASE(
    "a client that logs in while a message to the inbox is stored gets it before later ones") {
    for (const bool keeps_session : {false, true}) {
        CAPTURE(keeps_session);
        DurableCluster brokers;
        PlainClient phone(brokers, "bob");
        PlainClient desk(brokers, "desk");
        publish_first(brokers, desk, "inbox/bob");
        phone.connect(!keeps_session);
        desk.send("34 r s'inbox/bob' k2 'm2'");
        desk.send("32 r s'inbox/bob' k3 'm3'");
        brokers.settle();
        CHECK(joined_texts(phone) == "m1 m2 m3");
    }
}

TEST_CASE("a client that logs in while a message to a room is stored gets it before later ones") {
    DurableCluster brokers;
    PlainClient phone(brokers, "bob");
    PlainClient desk(brokers, "desk");
    brokers->broker(0).admin().rooms().add("room/r", "bob");
    brokers.settle();
    publish_first(brokers, desk, "room/r");
    phone.connect(true);
    desk.send("34 r s'room/r' k2 'm2'");
    brokers.settle();
    CHECK(joined_texts(phone) == "m1 m2");
}

TEST_CASE("a device that ends before its message is stored leaves it to the next one") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone", "bob");
    PlainClient tablet(brokers, "tablet", "bob");
    PlainClient desk(brokers, "desk");
    publish_first(brokers, desk, "inbox/bob");
    phone.connect(true);
    phone.lose_connection();
    brokers.settle();
    tablet.connect(true);
    brokers.settle();
    CHECK(joined_texts(tablet) == "m1");
}

TEST_CASE(
    "after a restart a message of QoS 1 that was under way comes before a later one of QoS 2") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    arrive(phone, "t");
    desk.connect(true);
    brokers.settle();
    desk.send("32 r s't' k1 'm1'");
    desk.send("34 r s't' k2 'm2'");
    brokers.settle();
    brokers.crash();
    phone.connect(false);
    brokers.settle();
    CHECK(joined_texts(phone) == "m1 m2");
}

TEST_CASE("a publisher's message of QoS 1 is not stored before an earlier one of QoS 2") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient worker(brokers, "worker");
    PlainClient desk(brokers, "desk");
    arrive(phone, "t");
    worker.connect(false);
    worker.send("82 r k1 s't' 01");
    desk.connect(false);
    brokers.settle();
    phone.lose_connection();
    desk.send("34 r s't' k1 'm1'");  // stored when the worker has acknowledged it
    worker.lose_connection();
    worker.connect(false);
    desk.send("32 r s't' k2 'm2'");
    commit_of(brokers, 0);
    CHECK(texts_after_crash(brokers, phone, desk).starts_with("m1 m2"));
}

TEST_CASE("another shard stores no message before an earlier one that this shard has not stored") {
    DurableCluster brokers(2);
    PlainClient phone(brokers, client_at(1, 2, "phone"));
    PlainClient desk(brokers, client_at(0, 2, "desk"));
    arrive(phone, "t");
    desk.connect(false);
    brokers.settle();
    phone.lose_connection();
    brokers.settle();
    desk.send("34 r s't' k1 'm1'");
    deliver_all(brokers, 0, 1);
    deliver_all(brokers, 1, 0);  // m1 is handed in when this turn ends
    desk.send("32 r s't' k2 'm2'");
    deliver_all(brokers, 0, 1);
    commit_of(brokers, 1);
    CHECK(texts_after_crash(brokers, phone, desk).starts_with("m1 m2"));
}

TEST_CASE("retained messages follow a SUBACK that waits for its commit") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    desk.connect(true);
    desk.send("31 r s't' 'kept'");
    phone.connect(false);
    brokers.settle();
    phone.take();
    phone.send("82 r k1 s't' 00");
    CHECK(phone.take().empty());
    brokers.settle();
    CHECK(phone.take() == hex(wire("90 r k1 00 | 31 r s't' 'kept'")));
}
