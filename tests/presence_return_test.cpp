// Users that are back in time after a crash, and users that are not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "server/message/topics.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"
#include "tests/support/presence_watcher.h"

using namespace pulsegate;

namespace {

/// Ann is online when the process is killed, with a keepalive of 60 s, and somebody watches her.
class Killed {
public:
    explicit Killed(unsigned shards = 1, bool clean = true)
        : brokers(shards), ann(brokers, "ann"), watcher_(brokers, "watcher", "presence/ann") {
        watcher_.subscribe();
        ann.connect(clean);
        settle();
        told = version();
        kill();
    }
    /// The watcher is back at once.
    void kill() {
        brokers.crash();
        watcher_.come_back();
        settle();
    }
    void pass(Millis time) {
        pass_time(brokers, time);
        settle();
    }
    void settle() {
        brokers.settle();
        watcher_.read();
        brokers.settle();
    }
    const User& user() { return *known(brokers, "ann"); }
    std::uint64_t version() { return user().version; }
    const ShownState& shown() const { return watcher_.known().at("ann"); }
    bool is_recorded() const {
        return std::ranges::any_of((*brokers).recorded,
                                   [](const PresenceChange& each) { return each.user == "ann"; });
    }

    mutable DurableCluster brokers;
    PlainClient ann;
    std::uint64_t told = 0;  ///< before the process was killed

private:
    Watcher watcher_;
};

}  // namespace

TEST_CASE("a user that is back within the limit after a crash was never offline") {
    for (const bool clean : {true, false}) {
        CAPTURE(clean);
        Killed killed(1, clean);
        CHECK(killed.user().online());
        CHECK(killed.user().here == 0);
        CHECK(killed.brokers->broker(0).admin().presence().online() == 2);
        CHECK(killed.shown().online);
        const std::uint64_t version = killed.version();
        const WallMillis since = killed.user().since;
        killed.pass(limit - 1000);
        killed.ann.connect(clean);
        killed.settle();
        CHECK(killed.user().here == 1);
        killed.pass(limit);
        CHECK(killed.user().online());
        CHECK((killed.user().cause == Cause::login));
        CHECK(killed.version() == version);
        CHECK(killed.user().since == since);
        CHECK(killed.shown().version == version);
        CHECK_FALSE(killed.is_recorded());
        killed.ann.send("e0 00");
        killed.brokers->end_turn();
        killed.settle();
        CHECK_FALSE(killed.shown().online);
        CHECK(killed.shown().version > version);
        CHECK(killed.brokers->recorded.size() == 1);
    }
}

TEST_CASE("a user that is not back within the limit after a crash is offline then, once") {
    for (const bool clean : {true, false}) {
        CAPTURE(clean);
        Killed killed(2, clean);
        killed.pass(limit - 1000);
        CHECK(killed.user().online());
        CHECK_FALSE(killed.is_recorded());
        killed.pass(2000);
        CHECK_FALSE(killed.user().online());
        CHECK_FALSE(killed.shown().online);
        CHECK(killed.version() > killed.told);
        CHECK(killed.shown().version == killed.version());
        const auto& recorded = killed.brokers->recorded;
        const auto told = std::ranges::find(recorded, "ann", &PresenceChange::user);
        REQUIRE(told != recorded.end());
        CHECK((told->cause == Cause::node_lost));
        CHECK_FALSE(told->online);
        CHECK(told->version == killed.version());
        CHECK(told->silent >= 0);
        CHECK(std::ranges::count(recorded, "ann", &PresenceChange::user) == 1);
        killed.kill();
        killed.pass(2 * limit);
        CHECK_FALSE(killed.is_recorded());
        CHECK((killed.user().cause == Cause::node_lost));
    }
}

TEST_CASE("a second crash within the limit begins it again") {
    Killed killed;
    killed.pass(60'000);
    killed.kill();
    CHECK(killed.shown().online);
    killed.pass(60'000);
    CHECK(killed.user().online());
    SUBCASE("for a user that is back then") {
        killed.ann.connect(true);
        killed.pass(limit);
        CHECK(killed.user().online());
        CHECK_FALSE(killed.is_recorded());
    }
    SUBCASE("for a user that is not") {
        killed.pass(32'000);
        CHECK_FALSE(killed.user().online());
        CHECK_FALSE(killed.shown().online);
    }
}

TEST_CASE("an awaited user has as much more time as ends were postponed") {
    constexpr Tick postponed = 10;
    Killed killed;
    killed.pass(60'000);
    killed.brokers->broker(0).postpone_ends(postponed);
    killed.pass(limit - 60'000 + (postponed - 1) * tick_length);
    CHECK(killed.user().online());
    SUBCASE("to come back") {
        killed.ann.connect(true);
        killed.pass(limit);
        CHECK(killed.user().online());
        CHECK_FALSE(killed.is_recorded());
    }
    SUBCASE("until it is offline") {
        killed.pass(2 * tick_length);
        CHECK_FALSE(killed.user().online());
    }
}

TEST_CASE("all awaited users are offline when the gateway is stopped") {
    Killed killed;
    killed.brokers.settle();
    (*killed.brokers).broker(0).begin_stop(Broker::UsersAtStop::go_offline, killed.brokers->now);
    killed.settle();
    CHECK_FALSE(killed.shown().online);
    CHECK((killed.user().cause == Cause::shutdown));
    killed.pass(limit + 1000);
    CHECK((killed.user().cause == Cause::shutdown));
}

namespace {

/// A device of ann with another keepalive, over MQTT 5.0.
struct Device5 {
    Device5(DurableCluster& brokers, const std::string& name)
        : client(brokers, name, "ann", Version::v5_0) {}
    void connect(const std::string& keepalive, const std::string& name) {
        client.connect("10 r s'MQTT' 05 02 k" + keepalive + " [ ] s'" + name + "'");
    }

    PlainClient client;
};

/// The seconds until ann is offline after a crash.
int seconds_awaited(DurableCluster& brokers) {
    brokers.settle();
    brokers.crash();
    int seconds = 0;
    for (; known(brokers, "ann")->online(); ++seconds) pass_time(brokers, 1000);
    return seconds;
}

}  // namespace

TEST_CASE("a user is awaited for the longest limit of the devices that were connected") {
    DurableCluster brokers;
    Device5 phone(brokers, "phone");
    Device5 desk(brokers, "desk");
    phone.connect("10", "phone");
    int expected = 0;
    SUBCASE("one") { expected = 15; }
    SUBCASE("a longer one") {
        brokers.settle();
        desk.connect("20", "desk");
        expected = 30;
    }
    SUBCASE("a longer one that has gone") {
        desk.connect("20", "desk");
        brokers.settle();
        desk.client.lose_connection();
        expected = 15;
    }
    SUBCASE("a shorter one") {
        desk.connect("6", "desk");
        brokers.settle();
        desk.client.lose_connection();
        expected = 15;
    }
    SUBCASE("the same one with another connection") {
        brokers.settle();
        phone.connect("40", "phone");
        expected = 60;
    }
    SUBCASE("one that is back after a crash") {
        brokers.settle();
        brokers.crash();
        desk.connect("40", "desk");
        expected = 60;
    }
    SUBCASE("a longer one that a drain has asked to leave first") {
        desk.connect("20", "desk");
        brokers.settle();
        desk.client.drain();
        phone.client.drain();
        brokers.settle();
        expected = 30;
    }
    CHECK(seconds_awaited(brokers) == expected + 1);
}

TEST_CASE("a user with a row without a limit is awaited for the idle timeout") {
    BrokerSettings settings;
    settings.idle_timeout = 45'000;
    DurableCluster brokers(1, settings);
    PlainClient ann(brokers, "ann");
    ann.connect(true);
    brokers.settle();
    // As a version has stored it that knew no limits.
    bool is_done = false;
    const User& user = *known(brokers, "ann");
    PutUser row = stored_presence(user);
    CHECK(row.limit == limit);
    row.limit = 0;
    brokers->store->submit({{row}, [&](Outcome outcome, std::vector<Operation>&) {
                                is_done = outcome == Outcome::committed;
                            }});
    brokers.commit();
    CHECK(is_done);
    brokers.crash();
    pass_time(brokers, 45'000);
    CHECK(known(brokers, "ann")->online());
    pass_time(brokers, 1000);
    CHECK_FALSE(known(brokers, "ann")->online());
}

TEST_CASE("users that are not back go offline over several turns, many of them packed") {
    constexpr int users = 1000;
    DurableCluster brokers;
    std::list<PlainClient> clients;  // the brokers write to their links
    for (int i = 0; i < users; ++i)
        clients.emplace_back(brokers, "user" + std::to_string(i)).connect(i % 2 == 0);
    brokers.settle();
    brokers.crash();
    const Presence& presence = brokers->broker(0).admin().presence();
    CHECK(presence.online() == users);
    const std::size_t packed = brokers->broker(0).admin().sessions().packed();
    CHECK(packed == users / 2);
    CHECK(brokers->recorded.empty());
    brokers->now += limit + 1000;
    CHECK(brokers->broker(0).tick(brokers->now));
    CHECK(brokers->recorded.size() >= 100);
    CHECK(brokers->recorded.size() < users);
    CHECK(presence.online() == users - brokers->recorded.size());
    tick(brokers);
    CHECK(presence.online() == 0);
    CHECK(brokers->recorded.size() == users);
    CHECK(brokers->broker(0).admin().sessions().packed() == packed);
    brokers.crash();
    CHECK(brokers->broker(0).admin().presence().online() == 0);
}

TEST_CASE("an awaited user has no connected device, and messages wait for the user") {
    Killed killed(1, false);
    std::string description =
        killed.brokers->broker(0).admin().describe("ann", killed.brokers->now).value();
    const auto shown = boost::json::parse(description).as_object();
    CHECK(shown.at("state") == "online");
    CHECK(shown.at("cause") == "login");
    CHECK(shown.at("devices").as_array().empty());
    PlainClient bob(killed.brokers, "bob");
    bob.connect(true);
    bob.send("32 r s'inbox/ann' k1 'hello'");
    killed.settle();
    killed.ann.connect(false);
    killed.settle();
    const auto messages = killed.ann.take_messages();
    REQUIRE(messages.size() == 1);
    CHECK(messages[0].text == "hello");
}
