// When a CONNACK waits for the store, and what waits with it.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/durable_cluster.h"

using namespace pulsegate;

namespace {

const std::string new_session = hex(wire("20 r2 00 00"));
const std::string session_present = hex(wire("20 r2 01 00"));
constexpr const char* message_5 = "34 r s'x' k5 'first'";

/// Its session has a message of QoS 2 that it has not released, and it has gone.
void leave_unreleased(DurableCluster& brokers, PlainClient& client) {
    client.connect(false);
    client.send(message_5);
    brokers.settle();
    CHECK(client.take() == new_session + " " + hex(wire("50 r2 k5")));
    client.lose_connection();
    brokers.settle();
}

}  // namespace

TEST_CASE("a clean start over a stored session is answered when the disk has its end") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    leave_unreleased(brokers, phone);
    phone.connect(true);
    brokers.deliver();
    CHECK(phone.take().empty());
    brokers.commit();
    brokers.deliver();
    CHECK(phone.take() == new_session);

    brokers.crash();
    phone.connect(false);
    CHECK(phone.take() == new_session);
    PlainClient other(brokers, "other");
    other.connect(true);
    other.send("82 r k1 s'x' 00");
    phone.send(message_5);  // another one, with the same identifier
    brokers.settle();
    CHECK(other.take() == new_session + " " + hex(wire("90 r k1 00 | 30 r s'x' 'first'")));
}

TEST_CASE("a session that came back from a crash was not said to have ended") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    leave_unreleased(brokers, phone);
    phone.connect(true);
    brokers.deliver();
    CHECK(phone.take().empty());
    brokers.crash();
    phone.connect(false);
    CHECK(phone.take() == session_present);
}

TEST_CASE("clients without a stored session, and those who come back to one, don't wait") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    PlainClient visitor(brokers, "visitor");
    phone.connect(false);
    CHECK(phone.take() == new_session);
    phone.connect(false);
    CHECK(phone.take() == session_present);
    visitor.connect(true);
    CHECK(visitor.take() == new_session);
    visitor.connect(true);
    CHECK(visitor.take() == new_session);
    // Nor does anybody when another one's session ends.
    phone.connect(true);
    visitor.connect(true);
    CHECK(phone.take().empty());
    CHECK(visitor.take() == new_session);
    brokers.settle();
    CHECK(phone.take() == new_session);
    phone.connect(true);
    CHECK(phone.take() == new_session);
}

TEST_CASE("what is sent to a client whose CONNACK waits comes after it") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    phone.connect(false);
    phone.connect(true);
    phone.send("82 r k7 s'x' 01");
    PlainClient other(brokers, "other");
    other.connect(true);
    other.send("30 r s'x' 'now'");  // of QoS 0: it is not there yet
    other.send("32 r s'x' k1 'later'");
    CHECK(phone.take().empty());
    brokers.settle();
    CHECK(phone.take() == new_session + " " + hex(wire("90 r k7 01 | 32 r s'x' k1 'later'")));
}

TEST_CASE("who connects again while its CONNACK waits waits for the same") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    leave_unreleased(brokers, phone);
    phone.connect(true);
    phone.lose_connection();
    phone.connect(false);
    phone.connect(true);
    brokers.deliver();
    CHECK(phone.take().empty());
    brokers.settle();
    CHECK(phone.take() == new_session);
    CHECK_FALSE(phone.link().ending);
}

TEST_CASE("if the disk does not take the end of a session, a clean start is refused") {
    DurableCluster brokers;
    PlainClient phone(brokers, "phone");
    leave_unreleased(brokers, phone);
    brokers.disk().fail_at(brokers.disk().steps() + 1, FaultyDisk::Fault::full, 3);
    phone.connect(true);
    brokers.deliver();
    brokers.commit();
    brokers.deliver();
    CHECK(phone.take() == hex(wire("20 r2 00 03")));
    REQUIRE(phone.link().ending);
    CHECK(phone.link().ending->reason == Reason::success);
    phone.connect(true);
    brokers.deliver();
    CHECK(phone.take() == hex(wire("20 r2 00 03")));
    PlainClient visitor(brokers, "visitor");
    visitor.connect(true);
    CHECK(visitor.take() == new_session);

    CHECK_FALSE(brokers->broker(0).tick(brokers->now + 1000));
    brokers.settle();
    phone.connect(true);
    CHECK(phone.take() == new_session);
}
