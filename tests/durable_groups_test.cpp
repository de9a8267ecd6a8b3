// Messages to members of shared subscriptions, some of them with stored sessions.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/durable_group.h"

using namespace pulsegate;

namespace {

/// A member of the group gets a message that was not sent to it before, and completes it.
void complete(DurableCluster& brokers, PlainClient& member, const std::string& id) {
    CHECK(member.take() == hex(wire("34 r s'x' " + id + " 'hello'")));
    member.send("50 r2 " + id);
    brokers.settle();
    CHECK(member.take() == hex(wire("62 r2 " + id)));
    member.send("70 r2 " + id);
    brokers.settle();
}

/// The phone has a message at QoS 2 for itself and as the only member of its group, and both are
/// stored; it has answered none.
void receive_twice(DurableCluster& brokers, PlainClient& phone, PlainClient& desk) {
    arrive(phone, "x");
    phone.send("82 r k2 s'" + std::string(group) + "' 02");
    desk.connect(false);
    brokers.settle();
    desk.send("34 r s'x' k1 'hello'");
    brokers.settle();
    pass(brokers, 110);
    brokers.settle();
    const auto messages = phone.take_messages();
    REQUIRE(messages.size() == 2);
    CHECK(messages[0].packet_id == 1);
    CHECK(messages[1].packet_id == 2);
}

}  // namespace

TEST_CASE("a member of a shared subscription is in the store before its messages are") {
    DurableCluster brokers(shards);
    PlainClient worker(brokers, client_at(other, shards, "worker"));
    PlainClient desk(brokers, client_at(home, shards, "desk"));
    desk.connect(true);
    brokers.settle();
    desk.take();
    arrive(worker, group);
    deliver_all(brokers, other,
                home);  // the group has heard of it, and its shard has not handed it in
    desk.send("32 r s'x' k1 'hello'");
    deliver_all(brokers, home, home);
    deliver_all(brokers, other, other);
    brokers.settle();
    CHECK(desk.take() == hex(wire("40 r2 k1")));
    brokers.crash();
    worker.connect(false);
    brokers.settle();
    const std::string got = worker.take();
    CHECK(got.starts_with(hex(wire("20 r2 01 00"))));
    CHECK(got.ends_with(hex("hello")));
}

TEST_CASE("a member of a shared subscription is told of it when its group knows it") {
    DurableCluster brokers(shards);
    PlainClient worker(brokers, client_at(other, shards, "worker"));
    worker.connect(false);
    brokers.settle();
    worker.take();
    worker.send("82 r k1 s'" + std::string(group) + "' 01");
    commit_of(brokers, other);
    CHECK(worker.take().empty());  // what is published now would not be kept for it
    deliver_all(brokers, other, home);
    deliver_all(brokers, home, other);
    CHECK(worker.take() == hex(wire("90 r k1 01")));
}

TEST_CASE("a member without a session is told of it when its group knows it, too") {
    DurableCluster brokers(shards);
    PlainClient worker(brokers, client_at(other, shards, "worker"));
    worker.connect(true);
    brokers.settle();
    worker.take();
    worker.send("82 r k1 s'" + std::string(group) + "' 01");
    CHECK(worker.take().empty());
    brokers.settle();
    CHECK(worker.take() == hex(wire("90 r k1 01")));
}

TEST_CASE("a message to a member does not overtake one that is being stored for it") {
    DurableCluster brokers(shards);
    PlainClient worker(brokers, client_at(other, shards, "worker"));
    PlainClient desk(brokers, client_at(home, shards, "desk"));
    arrive(worker, group);
    desk.connect(false);
    brokers.settle();
    worker.take();
    desk.send("34 r s'x' k1 'm1'");
    desk.send("32 r s'x' k2 'm2'");
    desk.send("30 r s'x' 'm3'");
    deliver_all(brokers, home, other);
    CHECK(worker.take().empty());
    brokers.settle();
    const auto got = worker.take_messages();
    REQUIRE(got.size() == 3);
    CHECK(got[0].text == "m1");
    CHECK(got[1].text == "m2");
    CHECK(got[2].text == "m3");
}

TEST_CASE("a disconnected member keeps its group's messages if no other member is connected") {
    DurableCluster brokers(shards);
    PlainClient worker(brokers, client_at(other, shards, "worker"));
    PlainClient desk(brokers, client_at(home, shards, "desk"));
    arrive(worker, group);
    desk.connect(true);
    brokers.settle();
    worker.take();
    desk.send("32 r s'x' k1 'm1'");  // on its way when the worker goes
    worker.lose_connection();
    desk.send("32 r s'x' k2 'm2'");
    deliver_all(brokers, home, other);
    worker.connect(false);
    brokers.settle();
    const auto got = worker.take_messages();
    REQUIRE(got.size() == 2);
    CHECK(got[0].text == "m1");
    CHECK(got[1].text == "m2");
}

TEST_CASE("a message that is stored for a member while it goes goes to another one") {
    for (const bool first_goes : {true, false}) {
        CAPTURE(first_goes);
        DurableCluster brokers(shards);
        PlainClient helper(brokers, client_at(other, shards, "helper"));
        PlainClient worker(brokers, client_at(other, shards, "worker"));
        PlainClient desk(brokers, client_at(home, shards, "desk"));
        arrive(helper, group);
        arrive(worker, group);
        desk.connect(false);
        brokers.settle();
        helper.take();
        worker.take();
        desk.send("34 r s'x' k1 'm1'");  // one of them will get it
        desk.send("34 r s'x' k2 'm2'");  // and the other this one
        (first_goes ? helper : worker).lose_connection();
        brokers.settle();
        CHECK((first_goes ? worker : helper).take_messages().size() == 2);
    }
}

TEST_CASE("a message that one member leaves to another while that one goes is sent to a third") {
    for (const bool first_goes : {true, false}) {
        CAPTURE(first_goes);
        DurableCluster brokers(shards);
        PlainClient guest(brokers, client_at(other, shards, "guest"));
        PlainClient helper(brokers, client_at(other, shards, "helper"));
        PlainClient worker(brokers, client_at(home, shards, "worker"));
        arrive(guest, group);
        brokers.settle();
        guest.lose_connection();
        publish(brokers, client_at(home, shards, "desk"), "34 r s'x' k1 'm1'");
        arrive(helper, group);
        arrive(worker, group);
        brokers.settle();
        helper.take();
        worker.take();
        guest.connect(true);  // its session ends
        deliver_all(brokers, other, home);
        (first_goes ? helper : worker).lose_connection();
        brokers.settle();
        CHECK((first_goes ? worker : helper).take_messages().size() == 1);
    }
}

TEST_CASE("a message that goes to another member leaves the first member's own messages alone") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient worker(brokers, client_at(home, shards, "worker"));
    helper.connect(false);
    helper.send("82 r k1 s'x' 02 s'" + std::string(group) + "' 02");
    brokers.settle();
    publish(brokers, client_at(home, shards, "desk"), "32 r s'x' k1 'hello'");
    CHECK(helper.take_messages().size() == 2);  // separate copies (MQTT 5.0, 4.8.2)
    arrive(worker, group);
    brokers.settle();
    helper.lose_connection();
    brokers.settle();
    brokers.crash();
    helper.connect(false);
    brokers.settle();
    CHECK(helper.take().ends_with(hex("hello")));
}

TEST_CASE("after a restart another member is told that a message was published to be retained") {
    DurableCluster brokers;
    PlainClient helper(brokers, "helper", "helper", Version::v5_0);
    PlainClient worker(brokers, "worker", "worker", Version::v5_0);
    join_and_go(brokers, helper);
    publish(brokers, "desk", "33 r s'x' k1 'hello'");
    brokers.crash();
    worker.connect(false);
    constexpr const char* retain_as_published = "09";
    worker.send("82 r k1 [] s'" + std::string(group) + "' " + retain_as_published);
    brokers.settle();
    worker.take();
    helper.connect(true);  // its session ends, and what waits goes to the worker
    brokers.settle();
    CHECK(worker.take() == hex(wire("33 r s'x' k1 [] 'hello'")));
}

TEST_CASE("a group's message is stored before its member's shard says anything of it") {
    DurableCluster brokers(shards);
    PlainClient worker(brokers, client_at(other, shards, "worker"));
    PlainClient desk(brokers, client_at(home, shards, "desk"));
    arrive(worker, group);
    desk.connect(true);
    brokers.settle();
    worker.take();
    desk.send("34 r s'x' k1 'hello'");
    deliver_all(brokers, home, other);
    commit_of(brokers, other);
    CHECK(worker.take().empty());  // it could be done with it before it is stored
    brokers.settle();
    complete(brokers, worker, "k1");
    brokers.crash();
    check_completed(brokers, worker);
}

TEST_CASE("a group's message that goes from one member to another comes once") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient worker(brokers, client_at(other, shards, "worker"));
    PlainClient desk(brokers, client_at(home, shards, "desk"));
    arrive(helper, group);
    desk.connect(true);
    brokers.settle();
    desk.send("34 r s'x' k1 'hello'");
    commit_of(brokers, home);  // it is stored for the helper, and on its way
    arrive(worker, group);
    helper.lose_connection();
    deliver_all(brokers, other, home);
    deliver_all(brokers, home, other);
    deliver_all(brokers, other, home);  // back again
    deliver_all(brokers, home, other);
    commit_of(brokers, other);
    const bool has_gone_to_worker = worker.take().ends_with(hex("hello"));
    brokers.crash();  // before it is stored for the worker
    helper.connect(false);
    brokers.settle();
    CHECK(helper.take().ends_with(hex("hello")) != has_gone_to_worker);
}

TEST_CASE("a group's message that a member without a session takes over ends for the others") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    PlainClient guest(brokers, client_at(home, shards, "guest"));
    PlainClient desk(brokers, client_at(home, shards, "desk"));
    arrive(helper, group);
    desk.connect(true);
    brokers.settle();
    helper.take();
    desk.send("34 r s'x' k1 'first'");
    brokers.settle();
    CHECK(helper.take() == hex(wire("34 r s'x' k1 'first'")));
    desk.send("34 r s'x' k2 'hello'");
    commit_of(brokers, home);
    guest.connect(true);
    guest.send("82 r k1 s'" + std::string(group) + "' 02");
    helper.lose_connection();
    deliver_all(brokers, other, home);
    brokers.settle();
    CHECK(guest.take().ends_with(hex(wire("34 r s'x' k1 'hello'"))));
    guest.send("50 r2 k1");  // with the packet identifier that the helper has not released
    brokers.settle();
    CHECK(guest.take() == hex(wire("62 r2 k1")));
    brokers.crash();
    helper.connect(false);
    brokers.settle();
    CHECK(helper.take() == hex(wire("20 r2 01 00 | 3c r s'x' k1 'first'")));
}

TEST_CASE("a member gets at QoS 0 what another one had when that one can't any more") {
    DurableCluster brokers;
    PlainClient helper(brokers, "helper");
    PlainClient guest(brokers, "guest");
    PlainClient desk(brokers, "desk");
    arrive(helper, group);
    desk.connect(false);
    brokers.settle();
    helper.lose_connection();
    desk.send("34 r s'x' k1 'hello'");
    brokers.settle();
    guest.connect(true);
    guest.send("82 r k1 s'" + std::string(group) + "' 00");
    brokers.settle();
    helper.connect(true);  // its session ends, and what waits goes to the guest
    const bool has_gone_to_guest = guest.take().ends_with(hex("hello"));
    brokers.crash();  // before anything of that is stored
    helper.connect(false);
    brokers.settle();
    CHECK(helper.take().ends_with(hex("hello")) != has_gone_to_guest);
}

TEST_CASE("a group's member gets at QoS 0 what comes at QoS 2, and nothing of it is stored") {
    DurableCluster brokers;
    PlainClient worker(brokers, "worker");
    PlainClient desk(brokers, "desk");
    worker.connect(false);
    worker.send("82 r k1 s'" + std::string(group) + "' 00");
    desk.connect(false);
    brokers.settle();
    worker.take();
    desk.send("34 r s'x' k1 'hello'");
    brokers.settle();
    CHECK(worker.take() == hex(wire("30 r s'x' 'hello'")));
    CHECK(stored(brokers) == 0);
}

TEST_CASE("a message at QoS 2 for a client and its group is no hindrance to the next start") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    receive_twice(brokers, phone, desk);
    for (int starts = 0; starts < 2; ++starts) {  // the first one tidies up
        brokers.crash();
        phone.connect(false);
        brokers.settle();
        CHECK(phone.take_messages().size() == 1);  // the store does not tell the two apart
    }
}

TEST_CASE("while the store is full, nothing new waits for a group without connected members") {
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(other, shards, "helper"));
    const std::string desk_name = client_at(home, shards, "desk");
    PlainClient desk(brokers, desk_name, desk_name, Version::v5_0);
    arrive(helper, group);
    desk.connect(true);
    brokers.settle();
    helper.take();
    desk.take();
    brokers->store_takes_nothing_new = true;
    desk.send("32 r s'x' k1 [] 'm1'");  // its member is connected
    brokers.settle();
    CHECK(desk.take() == hex(wire("40 r k1")));
    helper.send("40 r2 k1");
    helper.lose_connection();
    brokers.settle();
    helper.take();
    for (const char* publish : {"32 r s'x' k2 [] 'm2'", "34 r s'x' k2 [] 'm2'"}) {
        const bool is_qos_1 = publish[1] == '2';
        desk.send(publish);
        brokers.settle();
        CHECK(desk.take() == hex(wire((is_qos_1 ? "40" : "50") + std::string(" r k2 97"))));
    }
    CHECK(brokers->sum(&Counters::dropped_queue_full) == 2);
    brokers->store_takes_nothing_new = false;
    desk.send("32 r s'x' k3 [] 'm3'");
    brokers.settle();
    CHECK(desk.take() == hex(wire("40 r k3")));
    helper.connect(false);
    brokers.settle();
    CHECK(helper.take().ends_with(hex(wire("32 r s'x' k2 'm3'"))));
}
