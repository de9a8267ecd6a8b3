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

TEST_CASE("clients that have no stored session or come back to one don't wait") {
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

TEST_CASE("packets to a client with a waiting CONNACK come after it") {
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

TEST_CASE("a client that connects again while its CONNACK waits waits for the same commit") {
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

namespace {

/// The phone's earlier session ends on a disk that fails, after a login with a will; others look
/// on.
struct RefusedLogin {
    DurableCluster brokers;
    PlainClient phone{brokers, "phone"};
    PlainClient watcher{brokers, "watcher"};

    RefusedLogin() {
        watcher.connect(true);
        watcher.send("82 r k1 s'wills/#' 00");
        watcher.send("82 r k1 s'presence/phone' 00");
        phone.connect(false);
        brokers.settle();
    }
    void see_nothing() {
        brokers.settle();
        CHECK(watcher.take_messages().empty());
    }
    /// The user has gone, and its watcher knows it.
    void go() {
        phone.lose_connection();
        brokers.settle();
        watcher.take();
        brokers->recorded.clear();
    }
    void fail() { brokers.disk().fail_at(brokers.disk().steps() + 1, FaultyDisk::Fault::full, 3); }
    void refuse() {
        brokers.deliver();
        brokers.commit();
        brokers.deliver();
        CHECK(phone.take() == hex(wire("20 r2 00 03")));
    }
    /// Whatever the client has at its home.
    const Session* session() { return brokers->broker(0).logins().find("phone", "phone"); }
};

/// `end` ends the connection of a login that waits for the store. Nobody is told of it, and the
/// client may come back.
template <class End>
void check_unnoticed(unsigned expiry, End end) {
    CAPTURE(expiry);
    RefusedLogin of;
    of.go();
    PlainClient again(of.brokers, "phone", "phone", Version::v5_0);
    again.connect(true, expiry, "wills/phone");
    of.brokers.deliver();
    end(of, again);
    of.see_nothing();
    CHECK(of.brokers->recorded.empty());
    CHECK((of.session() != nullptr) == (expiry > 0));
    again.connect(true);
    of.brokers.settle();
    REQUIRE(of.brokers->recorded.size() == 1);
    CHECK(of.brokers->recorded[0].online);
    CHECK(of.watcher.take_messages().size() == 1);
}

}  // namespace

TEST_CASE("a login that the store refuses has not happened: no will, no presence, no session") {
    RefusedLogin of;
    of.go();
    of.fail();
    of.phone.connect(true, 0, "wills/phone");
    of.refuse();
    of.see_nothing();
    CHECK(of.brokers->recorded.empty());
    CHECK_FALSE(of.session());
}

TEST_CASE("a login that waits for the store is told to nobody before it is accepted") {
    RefusedLogin of;
    of.go();
    of.phone.connect(true, 0, "wills/phone");
    of.brokers.deliver();
    CHECK(of.watcher.take_messages().empty());
    CHECK(of.brokers->recorded.empty());
    of.brokers.settle();
    CHECK(of.phone.take() == new_session);
    REQUIRE(of.brokers->recorded.size() == 1);
    CHECK(of.brokers->recorded[0].online);
    CHECK(of.watcher.take_messages().size() == 1);
    of.phone.lose_connection();  // it was accepted: its will counts
    of.brokers.settle();
    CHECK(of.watcher.take_messages().size() == 2);
}

TEST_CASE("a client that takes a connection over and is refused is offline") {
    RefusedLogin of;
    of.brokers.settle();
    of.watcher.take();
    of.brokers->recorded.clear();
    of.fail();
    of.phone.connect(true, 0, "wills/phone");
    CHECK(of.brokers->recorded.empty());
    of.refuse();
    of.brokers->end_turn();
    REQUIRE(of.brokers->recorded.size() == 1);
    CHECK_FALSE(of.brokers->recorded[0].online);
    of.brokers.settle();
    for (const auto& message : of.watcher.take_messages()) CHECK(message.text != "gone");
}

TEST_CASE("a login is not announced if its connection ends before the CONNACK, however it ends") {
    const Ending endings[] = {{Cause::connection_lost, Reason::success, "lost"},
                              {Cause::kicked, Reason::administrative_action, "banned"},
                              {Cause::kicked, Reason::not_authorized, "revoked"},
                              {Cause::timeout, Reason::keep_alive_timeout, "silent"},
                              {Cause::shutdown, Reason::server_shutting_down, "shutdown"}};
    for (const Ending& ending : endings)
        for (const unsigned expiry : {0U, 1000U}) {
            CAPTURE(ending.why);
            check_unnoticed(expiry, [&](RefusedLogin& of, PlainClient& client) {
                client.link().end(ending);
                of.brokers->end_turn();
            });
        }
}

TEST_CASE("a login is not accepted when its connection has failed before its session is told") {
    for (const unsigned expiry : {0U, 1000U})
        check_unnoticed(expiry, [](RefusedLogin& of, PlainClient& client) {
            client.link().is_broken = true;
            of.brokers.settle();
            client.lose_connection();
        });
}

TEST_CASE("a login that waits for the store when the gateway stops brings nobody online") {
    for (const bool was_here : {false, true}) {
        CAPTURE(was_here);
        RefusedLogin of;
        if (!was_here) of.go();
        of.watcher.take();
        of.brokers->recorded.clear();
        of.phone.connect(true, 0, "wills/phone");
        of.brokers.deliver();
        of.brokers->broker(0).begin_stop(Broker::UsersAtStop::go_offline, of.brokers->now);
        of.brokers->end_turn();
        of.brokers.settle();
        for (const auto& each : of.brokers->recorded) CHECK_FALSE(each.online);
        CHECK(of.watcher.take_messages().size() == (was_here ? 1 : 0));
        CHECK(of.phone.take().empty());
        CHECK_FALSE(of.brokers->broker(0).admin().presence().find("phone")->online());
    }
}

TEST_CASE(
    "a client that comes back to a session that ends soon, and is refused, keeps session and "
    "will") {
    RefusedLogin of;
    PlainClient again(of.brokers, "phone", "phone", Version::v5_0);
    // Will Delay 100 s
    again.connect(std::string_view(
        "10 r s'MQTT' 05 04 k60 [ 11 w300 ] s'phone' [ 18 w100 ] s'wills/phone' s'gone'"));
    of.brokers.settle();
    again.lose_connection();
    of.brokers.settle();
    of.watcher.take();
    of.brokers->recorded.clear();
    of.fail();
    again.connect(false, 300);
    of.brokers.deliver();
    of.brokers.commit();
    of.brokers.deliver();
    CHECK(again.take().starts_with(hex(wire("20"))));
    REQUIRE(again.link().ending);
    of.brokers->end_turn();
    of.see_nothing();
    CHECK(of.brokers->recorded.empty());
    REQUIRE(of.session());
    CHECK(of.session()->state.will());
    CHECK_FALSE(of.brokers->broker(0).tick(of.brokers->now + 1000));
    of.brokers.settle();
    again.connect(false, 300);
    of.brokers.settle();
    CHECK(again.take().starts_with(hex(wire("20"))));
    REQUIRE(of.session());
    CHECK(of.session()->has_connack());
    CHECK_FALSE(of.session()->state.will());  // the new CONNECT has none
    REQUIRE(of.brokers->recorded.size() == 1);
    CHECK(of.brokers->recorded[0].online);
}

TEST_CASE("logins that wait for the store count for max-connections-per-user") {
    BrokerSettings settings;
    settings.max_connections_per_user = 1;
    DurableCluster brokers(1, settings);
    PlainClient phone(brokers, "phone", "ann");
    PlainClient desk(brokers, "desk", "ann");
    for (PlainClient* const each : {&phone, &desk}) {
        each->connect(false);
        brokers.settle();
        CHECK(each->take() == new_session);
        each->lose_connection();
    }
    phone.connect(true);
    desk.connect(true);
    CHECK(desk.take() == hex(wire("20 r2 00 03")));
    brokers.settle();
    CHECK(phone.take() == new_session);
}

TEST_CASE("a user with nothing but a login that waits can be thrown out") {
    RefusedLogin of;
    of.go();
    of.phone.connect(true, 0, "wills/phone");
    of.brokers.deliver();
    const Evicted evicted = of.brokers->broker(0).admin().evict(
        {.user = "phone", .arrived_by = wall_now() + 1000, .why = "banned"}, of.brokers->now);
    CHECK(evicted.disconnected == 1);
    of.brokers->end_turn();
    of.see_nothing();
}

TEST_CASE("the will of a login that is taken over before its CONNACK is not published") {
    RefusedLogin of;
    of.go();
    of.phone.connect(true, 0, "wills/phone");
    of.brokers.deliver();
    of.phone.connect(true, 0);
    of.brokers.settle();
    CHECK(of.phone.take() == new_session);
    for (const auto& message : of.watcher.take_messages()) CHECK(message.text != "gone");
    REQUIRE(of.brokers->recorded.size() == 1);
    CHECK(of.brokers->recorded[0].cause == Cause::login);
}

TEST_CASE("messages that wait in the inbox are handed out to a device when its login is accepted") {
    RefusedLogin of;
    of.phone.connect(true);
    of.brokers.settle();
    of.phone.lose_connection();  // it has no session
    of.brokers.settle();
    of.watcher.send("32 r s'inbox/phone' k9 'waits'");
    of.brokers.settle();
    of.phone.connect(false);
    of.phone.connect(true);
    of.brokers.deliver();
    of.phone.take();
    CHECK(of.brokers->recorded.back().online);
    of.brokers.settle();
    const auto messages = of.phone.take_messages();
    REQUIRE(messages.size() == 1);
    CHECK(messages[0].text == "waits");
}

TEST_CASE("while the store refuses, a client may come back to a session for which nothing waits") {
    RefusedLogin of;
    of.go();
    of.fail();
    PlainClient other(of.brokers, "other");
    other.connect(false);
    of.brokers.settle();
    REQUIRE(of.brokers->broker(0).admin().journal().is_refused());
    of.phone.connect(false);
    of.brokers.deliver();
    CHECK(of.phone.take() == session_present);
    CHECK_FALSE(of.phone.link().ending);
    CHECK(of.watcher.take_messages().size() == 1);  // it is online
    // The store has not taken this one.
    other.lose_connection();
    other.connect(false);
    of.brokers.deliver();
    CHECK(other.take() == hex(wire("20 r2 00 03")));
}

TEST_CASE("while the store refuses, a clean start leaves the session and connection it is after") {
    RefusedLogin of;
    of.fail();
    PlainClient other(of.brokers, "other");
    other.connect(false);
    of.brokers.settle();
    REQUIRE(of.brokers->broker(0).admin().journal().is_refused());
    of.phone.take();
    PlainClient thief(of.brokers, "phone");
    thief.connect(true);
    CHECK(thief.take() == hex(wire("20 r2 00 03")));
    CHECK_FALSE(of.phone.link().ending);
    REQUIRE(of.session());
    CHECK(of.session()->link == &of.phone.link());
}
