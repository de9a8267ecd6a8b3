// Messages to stored sessions: what is written, when, and in which order.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "server/base/hash.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

constexpr const char* group = "$share/g/x";

/// A client whose home is that shard.
std::string client_at(unsigned shard, unsigned shards, std::string name) {
    while (home_shard(name, shards) != shard) name += '+';
    return name;
}

void pass(DurableCluster& brokers, Millis time) {
    brokers->now += time;
    brokers->store_overdue();
}

/// All that the one shard has sent to the other so far.
void deliver_all(DurableCluster& brokers, unsigned from, unsigned to) {
    const BrokerCluster::Pair pair{from, to};
    const auto waits = [&] { return std::ranges::count(brokers->pairs_with_messages(), pair) > 0; };
    while (waits()) brokers.deliver(pair);
}

/// Has a session, and takes what is sent to the filter.
void arrive(PlainClient& client, const std::string& filter) {
    client.connect(false);
    client.send("82 r k1 s'" + filter + "' 02");
}

/// The one has a session and receives what the other publishes to x.
void meet(DurableCluster& brokers, PlainClient& receiver, PlainClient& publisher) {
    arrive(receiver, "x");
    publisher.connect(true);
    brokers.settle();
    receiver.take();
    publisher.take();
}

/// The shard hands in what it has to store, and all that was handed in is committed.
void commit_of(DurableCluster& brokers, unsigned shard) {
    deliver_all(brokers, shard, shard);
    brokers.commit();
    deliver_all(brokers, shard, shard);
}

/// A member of the group gets a message that was not sent to it before, and completes it.
void complete(DurableCluster& brokers, PlainClient& member, const std::string& id) {
    CHECK(member.take() == hex(wire("34 r s'x' " + id + " 'hello'")));
    member.send("50 r2 " + id);
    brokers.settle();
    CHECK(member.take() == hex(wire("62 r2 " + id)));
    member.send("70 r2 " + id);
    brokers.settle();
}

/// After a crash nothing of the group waits for its member.
void check_completed(DurableCluster& brokers, PlainClient& member) {
    member.connect(false);
    brokers.settle();
    CHECK(member.take() == hex(wire("20 r2 01 00")));
}

std::uint64_t stored(DurableCluster& brokers) { return brokers->broker(0).journal().messages(); }

/// A message to x, whose receiver acknowledges it after that time, with packet identifiers from
/// `number` on. The publisher must have been answered by then, unless it waits for the receiver.
void publish(DurableCluster& brokers, PlainClient& from, PlainClient& to, int number, Millis time) {
    const std::string id = " k" + std::to_string(number);
    from.send("32 r s'x'" + id + " 'hello'");
    for (Millis passed = 0; passed < time; ++passed) pass(brokers, 1);
    to.send("40 r2" + id);
    brokers.settle();
    CHECK(from.take() == hex(wire("40 r2" + id)));
    to.take();
}

}  // namespace

TEST_CASE("who acknowledges a message before it is stored does not get it again after a restart") {
    constexpr unsigned shards = 2;
    DurableCluster brokers(shards);
    PlainClient phone(brokers, client_at(1, shards, "phone"));
    PlainClient desk(brokers, client_at(0, shards, "desk"));
    phone.connect(false);
    phone.send("82 r k1 s'x' 01");
    desk.connect(false);
    brokers.settle();
    phone.take();
    desk.send("34 r s'x' k1 'hello'");  // of QoS 2: its publisher's shard stores it for all
    deliver_all(brokers, 0, 1);
    CHECK(phone.take() == hex(wire("32 r s'x' k1 'hello'")));
    pass(brokers, 110);  // so long that it is to be stored
    phone.send("40 r2 k1");
    deliver_all(brokers, 1, 1);
    brokers.commit();
    brokers.settle();
    CHECK(desk.take().ends_with(hex(wire("50 r2 k1"))));
    brokers.crash();
    phone.connect(false);
    brokers.settle();
    CHECK(phone.take() == hex(wire("20 r2 01 00")));
}

TEST_CASE("a member of a shared subscription is in the store before its messages are") {
    constexpr unsigned shards = 2;
    const unsigned home = home_shard(group, shards);
    const unsigned other = 1 - home;
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
    constexpr unsigned shards = 2;
    const unsigned home = home_shard(group, shards);
    const unsigned other = 1 - home;
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

TEST_CASE("what a client publishes at QoS 2 is stored in its order, though the first has to wait") {
    DurableCluster brokers;
    PlainClient desk(brokers, "desk");
    PlainClient phone(brokers, "phone");
    PlainClient worker(brokers, "worker");
    desk.connect(false);
    arrive(phone, "x");
    brokers.settle();
    arrive(worker, "x");
    desk.send("34 r s'x' k1 'first'");  // until the worker is stored
    worker.send("a2 r k2 s'x'");
    desk.send("34 r s'x' k2 'second'");
    commit_of(brokers, 0);
    brokers.crash();
    phone.connect(false);
    desk.connect(false);
    desk.send("3c r s'x' k1 'first'");
    desk.send("3c r s'x' k2 'second'");
    brokers.settle();
    const std::string got = phone.take();
    CHECK(got.find(hex("first")) < got.find(hex("second")));
}

TEST_CASE("a group's message is stored before its member's shard says anything of it") {
    constexpr unsigned shards = 2;
    const unsigned home = home_shard(group, shards);
    const unsigned other = 1 - home;
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
    constexpr unsigned shards = 2;
    const unsigned home = home_shard(group, shards);
    const unsigned other = 1 - home;
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
    constexpr unsigned shards = 2;
    const unsigned home = home_shard(group, shards);
    DurableCluster brokers(shards);
    PlainClient helper(brokers, client_at(1 - home, shards, "helper"));
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
    deliver_all(brokers, 1 - home, home);
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

TEST_CASE("whatever a member leaves to its group, the shard's clients may go on publishing") {
    constexpr unsigned count = 20'001;
    BrokerSettings settings;
    settings.max_queued_messages = count;
    settings.max_queued_bytes = count * 1024;
    DurableCluster brokers(1, settings);
    PlainClient helper(brokers, "helper");
    PlainClient worker(brokers, "worker");
    PlainClient desk(brokers, "desk");
    desk.connect(false);
    arrive(helper, group);
    helper.lose_connection();
    for (unsigned id = 1; id <= count; ++id)
        desk.send("34 r s'x' k" + std::to_string(id) + " 'hello'");
    arrive(worker, group);
    brokers.settle();
    worker.take();
    REQUIRE(brokers->broker(0).waiting() == count);
    helper.connect(true);  // and leaves all of them
    CHECK_FALSE(brokers->broker(0).store_lags());
    brokers.settle();
    CHECK(!worker.take_messages().empty());
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

TEST_CASE("clients that acknowledge after 40 ms spare the disk their messages") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    meet(brokers, phone, desk);
    for (int number = 1; number <= 100; ++number) publish(brokers, desk, phone, number, 40);
    CHECK(stored(brokers) == 0);
}

TEST_CASE("who acknowledges too late is waited for once, and then no more") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    meet(brokers, phone, desk);
    publish(brokers, desk, phone, 1, 400);
    CHECK(stored(brokers) == 1);
    for (int number = 2; number <= 20; ++number) {
        const std::string id = " k" + std::to_string(number);
        desk.send("32 r s'x'" + id + " 'hello'");
        brokers.settle();
        CHECK(desk.take() == hex(wire("40 r2" + id)));  // no time has passed
        pass(brokers, 400);
        phone.send("40 r2" + id);
    }
    CHECK(stored(brokers) == 20);
    // It is faster now.
    for (int number = 21; number <= 60; ++number) publish(brokers, desk, phone, number, 3);
    CHECK(stored(brokers) < 40);
    const auto before = stored(brokers);
    for (int number = 61; number <= 80; ++number) publish(brokers, desk, phone, number, 3);
    CHECK(stored(brokers) == before);
}

TEST_CASE("who always acknowledges quickly is not waited for long") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    meet(brokers, phone, desk);
    for (int number = 1; number <= 5; ++number) publish(brokers, desk, phone, number, 1);
    CHECK(stored(brokers) == 0);
    desk.send("32 r s'x' k6 'hello'");
    brokers.settle();
    CHECK(desk.take().empty());
    pass(brokers, 15);
    brokers.settle();
    CHECK(desk.take().empty());
    pass(brokers, 17);
    brokers.settle();
    CHECK(desk.take() == hex(wire("40 r2 k6")));
    CHECK(stored(brokers) == 1);
}

TEST_CASE("a client has to wait when too much of its own is not answered") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    PlainClient other(brokers, "other");
    arrive(phone, "x");
    phone.lose_connection();
    desk.connect(true);
    other.connect(true);
    brokers.settle();
    const auto awaits = [&](PlainClient& client) {
        return brokers->broker(0).awaits_answers(*client.link().session);
    };
    SUBCASE("of many small messages") {
        for (int number = 1; number <= 256; ++number) {
            CHECK_FALSE(awaits(desk));
            desk.send("32 r s'x' k" + std::to_string(number) + " 'hello'");
        }
    }
    SUBCASE("of few large ones") {
        for (int number = 1; number <= 5; ++number) {
            CHECK_FALSE(awaits(desk));
            desk.send("32 r s'x' k" + std::to_string(number) + " 'x'*220000");
        }
    }
    CHECK(awaits(desk));
    CHECK_FALSE(awaits(other));
    brokers.settle();
    CHECK_FALSE(awaits(desk));
    desk.send("32 r s'x' k1 'hello'");
    desk.lose_connection();
    desk.connect(true);
    CHECK_FALSE(awaits(desk));
}

TEST_CASE("who has too much unanswered is read on when it is answered") {
    const TemporaryFolder folder;
    StoppedClock clock;
    Gateway gateway([&](Config& config) { config.data = folder.path("data"); });
    Conversation phone(gateway);
    phone.send("10 r s'MQTT' 04 00 k60 s'phone'").expect("20 r2 00 00");
    phone.send("82 r k1 s'x' 01").expect("90 r k1 01");
    Conversation desk(gateway);
    desk.login("desk");
    std::string messages;
    for (int number = 1; number <= 257; ++number)
        messages += "32 r s'x' k" + std::to_string(number) + " 'hello' | ";
    desk.send(messages + "c0 r0");
    for (int number = 1; number <= 256; ++number)
        phone.expect("32 r s'x' k" + std::to_string(number) + " 'hello'");
    gateway.settle();
    CHECK(desk.silent());  // nor is its ping read
    for (int number = 1; number <= 256; ++number) phone.send("40 r2 k" + std::to_string(number));
    for (int number = 1; number <= 256; ++number) desk.expect("40 r2 k" + std::to_string(number));
    gateway.pass(clock, 10);
    desk.expect("d0 r0");
    phone.expect("32 r s'x' k257 'hello'");
    phone.send("40 r2 k257");
    desk.expect("40 r2 k257");
}
