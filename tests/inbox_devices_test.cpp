// What a device had from its user's inbox when its session ends, and the user's other devices.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/restarted_world.h"

using namespace pulsegate;

namespace {

/// Three messages wait for bob. His phone is sent them, acknowledges none and goes; then his tablet
/// comes.
struct DevicesOfBob {
    explicit DevicesOfBob(const BrokerSettings& settings = {}, QoS qos = QoS::at_least_once)
        : world(settings) {
        ann.connect(true);
        const std::string publish = qos == QoS::exactly_once ? "34" : "32";
        for (const char* message : {" k1 'm1'", " k2 'm2'", " k3 'm3'"})
            ann.send(publish + " r s'inbox/bob'" + message);
        world.brokers.settle();
        phone.connect(false, 600);
        world.brokers.settle();
        REQUIRE(texts(phone) == "m1 m2 m3 ");
    }
    void change_devices() {
        phone.lose_connection();
        tablet.connect(true, 0);
        world.brokers.settle();
        REQUIRE(texts(tablet).empty());
    }

    /// After a restart.
    void change_devices_again() {
        tablet.connect(true, 0);
        world.brokers.settle();
        REQUIRE(texts(tablet).empty());
    }

    World world;
    PlainClient ann{world.brokers, "ann"};
    PlainClient phone{world.brokers, "phone", "bob", Version::v5_0};
    PlainClient tablet{world.brokers, "tablet", "bob", Version::v5_0};
};

}  // namespace

TEST_CASE("when a session expires, another device that is connected gets what it had") {
    DevicesOfBob of;
    of.change_devices();
    of.world.pass(590);
    CHECK(texts(of.tablet).empty());
    of.world.pass(20);
    CHECK(texts(of.tablet) == "m1 m2 m3 ");
}

TEST_CASE("when a quota ends a session, another device that is connected gets what it had") {
    BrokerSettings settings;
    settings.persistent_session_quota = 2;  // the phone's and the inbox
    DevicesOfBob of(settings);
    of.change_devices();
    PlainClient eve(of.world.brokers, "eve", "eve", Version::v5_0);
    eve.connect(false, 600);
    of.world.brokers.settle();
    CHECK(texts(of.tablet).empty());
    eve.lose_connection();
    of.world.brokers.settle();
    CHECK(texts(of.tablet) == "m1 m2 m3 ");
}

TEST_CASE(
    "another device gets a device's messages in order, though not all of them were sent again") {
    DevicesOfBob of;
    of.phone.lose_connection();
    of.phone.receive_maximum = 2;
    of.phone.connect(false, 600);
    of.world.brokers.settle();
    REQUIRE(texts(of.phone) == "m1 m2 ");
    of.phone.send("e0 r 00 [ 11 w0 ]");  // its session ends
    of.tablet.connect(true, 0);
    of.world.brokers.settle();
    CHECK(texts(of.tablet) == "m1 m2 m3 ");
}

TEST_CASE(
    "a device's messages of QoS 2 go to another device, unless the first has confirmed them") {
    for (const bool restarts : {false, true}) {
        CAPTURE(restarts);
        DevicesOfBob of({}, QoS::exactly_once);
        of.phone.send("50 02 k1");
        of.world.brokers.settle();
        of.phone.take();
        of.change_devices();
        if (restarts) {
            restart(of.world.brokers, End::kill);
            of.change_devices_again();
        }
        of.world.pass(590);
        CHECK(texts(of.tablet).empty());
        of.world.pass(30);
        CHECK(texts(of.tablet) == "m2 m3 ");
    }
}

TEST_CASE("a device that takes what it had at QoS 2 leaves nothing for others") {
    for (const bool restarts : {false, true}) {
        CAPTURE(restarts);
        DevicesOfBob of({}, QoS::exactly_once);
        of.change_devices();
        if (restarts) restart(of.world.brokers, End::kill);
        of.phone.connect(false, 600);
        of.world.brokers.settle();
        REQUIRE(texts(of.phone) == "m1 m2 m3 ");
        for (const char* id : {"k1", "k2", "k3"}) of.phone.send("50 02 " + std::string(id));
        of.world.brokers.settle();
        of.phone.lose_connection();
        restart(of.world.brokers, End::kill);
        of.change_devices_again();
        of.world.pass(700);
        CHECK(texts(of.tablet).empty());
        of.world.pass(100);
        const StoredState stored = of.world.brokers.crash_and_read();
        CHECK_FALSE(stored.has_owner(OwnerKind::inbox, "bob", ""));
    }
}
