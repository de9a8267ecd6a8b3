// Messages to stored sessions: what is written, when, and in which order.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "server/auth/access.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"
#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

/// The one has a session and receives what the other publishes to x.
void meet(DurableCluster& brokers, PlainClient& receiver, PlainClient& publisher) {
    arrive(receiver, "x");
    publisher.connect(true);
    brokers.settle();
    receiver.take();
    publisher.take();
}

/// A message to x. Its receiver acknowledges it after that time, with packet identifiers from
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

/// So many messages are retained.
void retain(DurableCluster& brokers, int count) {
    PlainClient desk(brokers, "desk");
    desk.connect(true);
    for (int i = 1; i <= count; ++i) {
        const std::string number = std::to_string(i);
        desk.send("33 r s'r/" + number + "' k" + number + " 'hello'");
    }
    brokers.settle();
    desk.lose_connection();
}

/// It has a session, and subscribes to what is retained.
void subscribe_to_retained(DurableCluster& brokers, PlainClient& phone, bool reads) {
    phone.connect(false);
    brokers.settle();
    phone.link().stuck = !reads;
    phone.send("82 r k1 s'r/#' 01");
    brokers.settle();
}

}  // namespace

TEST_CASE(
    "a client that acknowledges a message before it is stored does not get it again after a "
    "restart") {
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

TEST_CASE("a client's messages of QoS 2 are stored in order, though the first has to wait") {
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

TEST_CASE("clients that acknowledge after 40 ms spare the disk their messages") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    meet(brokers, phone, desk);
    for (int number = 1; number <= 100; ++number) publish(brokers, desk, phone, number, 40);
    CHECK(stored(brokers) == 0);
}

TEST_CASE("the gateway waits once for a client that acknowledges too late, and then no more") {
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

TEST_CASE("the gateway does not wait long for a client that always acknowledges quickly") {
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

TEST_CASE("a client with too much unanswered is read again after the answers") {
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

TEST_CASE("retained messages that a crash kept from a session come when its client is back") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    retain(brokers, 10);
    subscribe_to_retained(brokers, phone, false);
    CHECK(phone.take_messages().empty());
    for (int starts = 0; starts < 2; ++starts) {
        brokers.crash();
        phone.connect(false);
        phone.link().stuck = starts == 0;
        brokers.settle();
    }
    CHECK(phone.take_messages().size() == 10);
}

TEST_CASE(
    "after a crash, a client gets the owed messages except those that it may no longer read") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    retain(brokers, 10);
    phone.connect(false);
    phone.link().stuck = true;
    phone.send("82 r k1 s'r/1' 01 s'r/2' 01");
    brokers.settle();
    brokers.crash();
    AccessRules rules;
    for (const char* rule : {"deny read r/1", "allow readwrite #"}) CHECK(rules.add(rule).empty());
    brokers->broker(0).use(std::make_shared<const AccessRules>(rules));
    phone.connect(false);
    brokers.settle();
    CHECK(phone.take_messages().size() == 1);
}

TEST_CASE("a SUBSCRIBE that asks for no retained messages leaves it at those that are owed") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone", "phone", Version::v5_0);
    retain(brokers, 10);
    phone.connect(false);
    phone.link().stuck = true;
    phone.send("82 r k1 [] s'r/#' 01");
    phone.send("82 r k2 [] s'r/#' 21");  // they were asked for already
    brokers.settle();
    brokers.crash();
    phone.connect(false);
    brokers.settle();
    CHECK(phone.take_messages().size() == 10);
}

TEST_CASE("retained messages that a session was sent come after a crash only unacknowledged") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    retain(brokers, 10);
    subscribe_to_retained(brokers, phone, true);
    const auto sent = phone.take_messages();
    REQUIRE(sent.size() == 10);
    for (int i = 0; i < 4; ++i) phone.send("40 r2 k" + std::to_string(sent[i].packet_id));
    pass(brokers, 1000);
    static_cast<void>(brokers->broker(0).tick(brokers->now));
    brokers.settle();
    brokers.crash();
    phone.connect(false);
    brokers.settle();
    CHECK(phone.take_messages().size() == 6);
}

namespace {

/// One stored session is sent a retained message of QoS 2 at QoS 1, and has not acknowledged it.
void publish_retained(DurableCluster& brokers, PlainClient& receiver, PlainClient& publisher) {
    receiver.connect(false);
    receiver.send("82 r k1 s'x' 01");
    publisher.connect(false);
    brokers.settle();
    receiver.take();
    publisher.send("35 r s'x' k1 'm'");
    brokers.settle();
    REQUIRE(receiver.take() == hex(wire("32 r s'x' k1 'm'")));
}

}  // namespace

TEST_CASE(
    "a client that subscribes while a retained message of QoS 2 is under way to others gets it") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    PlainClient late(brokers, "late");
    publish_retained(brokers, phone, desk);
    arrive(late, "x");
    brokers.settle();
    phone.send("40 r2 k1");  // before it had to be stored for the phone
    brokers.settle();
    CHECK(late.take() == hex(wire("20 r2 00 00 | 90 r k1 02 | 35 r s'x' k1 'm'")));
    late.send("50 r2 k1");
    brokers.settle();
    CHECK(late.take() == hex(wire("62 r2 k1")));
    // Nothing is left that would keep the gateway from an upgrade.
    SessionPassage& passage = brokers->broker(0).passage();
    static_cast<void>(passage.settle(brokers->now));
    brokers.settle();
    CHECK(passage.settle(brokers->now));
}

TEST_CASE(
    "a client that has completed a retained message while others have it does not get it again") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient desk(brokers, "desk");
    PlainClient late(brokers, "late");
    late.connect(false);
    late.send("82 r k1 s'y' 01");
    desk.connect(false);
    brokers.settle();
    desk.send("32 r s'y' k9 'slow'");
    pass(brokers, 400);
    late.send("40 r2 k1");  // so slow that the next one is stored at once
    brokers.settle();
    late.take();
    publish_retained(brokers, phone, desk);
    late.send("82 r k2 s'x' 01");
    brokers.settle();
    REQUIRE(late.take() == hex(wire("90 r k2 01 | 33 r s'x' k2 'm'")));
    late.send("40 r2 k2");
    brokers.settle();
    phone.send("40 r2 k1");
    brokers.settle();
    pass(brokers, 1000);
    static_cast<void>(brokers->broker(0).tick(brokers->now));
    brokers.settle();
    brokers.crash();
    late.connect(false);
    brokers.settle();
    CHECK(late.take() == hex(wire("20 r2 01 00")));
}
