// Ends that wait for a client's return after the gateway stood still: clients may have come back
// meanwhile, and nobody has read them.
#include <doctest/doctest.h>

#include "server/base/clock.h"
#include "server/settings/config.h"
#include "tests/support/gateway.h"

using namespace pulsegate;

namespace {

/// Ann is away for 8 of the 10 seconds after which her will is due.
struct DelayedWill {
    DelayedWill() {
        watcher.login("watcher");
        watcher.send("82 r k1 s'will' 00").expect("90 r k1 00");
        watcher.send("82 r k2 s'presence/ann' 00").expect("90 r k2 00");
        Conversation ann(gateway);
        ann.send("10 r s'MQTT' 05 06 k10 [ 11 w100 ] s'ann' [ 18 w10 ] s'will' s'gone'");
        ann.packet();
        watcher.packet();
        ann.reset();
        watcher.packet();  // she is offline
        gateway.pass(clock, 8000);
        watcher.expect_nothing();
    }

    StoppedClock clock{};
    const Gateway gateway{};
    Conversation watcher{gateway};
};

constexpr const char* gone = "30 r s'will' 'gone'";

}  // namespace

TEST_CASE("a delayed will waits for as much longer as the gateway stood still") {
    DelayedWill will;
    will.gateway.stand_still(will.clock, 30'000);
    will.watcher.expect_nothing();
    will.gateway.pass(will.clock, 1000);
    will.watcher.expect_nothing();
    will.gateway.pass(will.clock, 4000);
    will.watcher.expect(gone);
}

TEST_CASE("the pause of an upgrade that fails does not count as the delay of a will") {
    DelayedWill will;
    REQUIRE(will.gateway.freeze());
    will.clock.advance(30'000);
    will.gateway.thaw();
    will.watcher.expect_nothing();
    will.gateway.pass(will.clock, 1000);
    will.watcher.expect_nothing();
    will.gateway.pass(will.clock, 4000);
    will.watcher.expect(gone);
}

TEST_CASE("a gateway that stands still again and again publishes wills all the same") {
    DelayedWill will;
    for (int i = 0; i < 8; ++i) will.gateway.stand_still(will.clock, 2000);
    will.watcher.expect(gone);
}
