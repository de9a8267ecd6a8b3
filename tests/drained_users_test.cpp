// Users of drained clients stay online until their limit of silence has passed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"
#include "tests/support/presence_watcher.h"

using namespace pulsegate;

namespace {

/// Ann has a keepalive of 60 s, and somebody watches her.
struct Drained {
    explicit Drained(bool clean, const std::string& will = "")
        : ann(brokers, "ann"), watcher(brokers, "watcher", "presence/ann") {
        watcher.subscribe();
        ann.connect(clean, clean ? 0 : 86'400, will);
        settle();
    }
    void pass(Millis time) {
        pass_time(brokers, time);
        settle();
    }
    void settle() {
        brokers.settle();
        watcher.read();
        brokers.settle();
    }
    const User& user() { return *known(brokers, "ann"); }
    bool is_shown_online() { return watcher.known().at("ann").online; }
    std::size_t changes_told() {
        return static_cast<std::size_t>(
            std::ranges::count(brokers->recorded, "ann", &PresenceChange::user));
    }

    DurableCluster brokers;
    PlainClient ann;
    Watcher watcher;
};

}  // namespace

TEST_CASE("a drained user that is back within its limit was never offline") {
    for (const bool clean : {true, false}) {
        CAPTURE(clean);
        Drained drained(clean);
        const auto told = drained.changes_told();
        drained.ann.drain();
        CHECK(drained.user().online());
        CHECK(drained.user().here == 0);
        drained.pass(limit - 1000);
        CHECK(drained.user().online());
        drained.ann.connect(clean);
        drained.settle();
        drained.pass(limit);
        CHECK(drained.user().online());
        CHECK(drained.is_shown_online());
        CHECK(drained.changes_told() == told);
    }
}

TEST_CASE("a drained user that is not back within its limit is offline then, once") {
    for (const bool clean : {true, false}) {
        CAPTURE(clean);
        Drained drained(clean);
        const auto told = drained.changes_told();
        drained.ann.drain();
        drained.pass(limit - 1000);
        CHECK(drained.is_shown_online());
        drained.pass(2000);
        CHECK_FALSE(drained.user().online());
        CHECK_FALSE(drained.is_shown_online());
        CHECK((drained.user().cause == Cause::node_lost));
        CHECK(drained.changes_told() == told + 1);
        drained.pass(2 * limit);
        CHECK(drained.changes_told() == told + 1);
    }
}

TEST_CASE("a second drain begins the user's limit anew") {
    Drained drained(false);
    drained.ann.drain();
    drained.pass(limit / 2);
    drained.ann.connect(false);
    drained.settle();
    drained.ann.drain();
    drained.pass(limit - 1000);  // the limit of the first drain has passed
    CHECK(drained.user().online());
    drained.pass(2000);
    CHECK_FALSE(drained.user().online());
    CHECK(drained.brokers->broker(0).admin().presence().online() == 1);  // the watcher
}

TEST_CASE("the next start awaits the users of a drained gateway") {
    for (const bool clean : {true, false}) {
        CAPTURE(clean);
        Drained drained(clean);
        drained.ann.drain();
        drained.pass(10'000);
        drained.brokers.stop(Broker::UsersAtStop::are_awaited);
        drained.brokers.start();
        drained.watcher.come_back();
        drained.settle();
        CHECK(drained.user().online());
        SUBCASE("one that comes back") {
            drained.pass(limit - 1000);
            drained.ann.connect(clean);
            drained.settle();
            drained.pass(limit);
            CHECK(drained.is_shown_online());
            CHECK(drained.changes_told() == 0);
        }
        SUBCASE("one that does not") {
            drained.pass(limit + 1000);
            CHECK_FALSE(drained.is_shown_online());
            CHECK(drained.changes_told() == 1);
        }
    }
}

TEST_CASE("the version of a drained user does not fall with the next start") {
    Drained drained(true);
    const auto before = drained.user().version;
    drained.ann.drain();
    const auto shown = drained.user().version;
    CHECK(shown > before);
    drained.brokers.stop(Broker::UsersAtStop::are_awaited);
    drained.brokers.start();
    CHECK(drained.user().version >= shown);
    CHECK(drained.user().online());
    drained.pass(limit - 2000);
    CHECK(drained.user().online());
    drained.pass(4000);
    CHECK_FALSE(drained.user().online());
}

TEST_CASE("a drained client's will comes once, when its limit has passed") {
    for (const bool restarts : {false, true}) {
        CAPTURE(restarts);
        Drained drained(false, "bye");
        PlainClient reader(drained.brokers, "reader");
        reader.connect(false);
        reader.send("82 r k1 s'bye' 01");
        drained.settle();
        drained.ann.drain();
        drained.settle();
        if (restarts) {
            drained.brokers.stop(Broker::UsersAtStop::are_awaited);
            drained.brokers.start();
            drained.watcher.come_back();
            reader.connect(false);
        }
        drained.pass(limit - 1000);
        CHECK(reader.take_messages().empty());
        drained.pass(2000);
        const auto wills = reader.take_messages();
        REQUIRE(wills.size() == 1);
        CHECK(wills[0].text == "gone");
        drained.pass(limit);
        CHECK(reader.take_messages().empty());
    }
}
