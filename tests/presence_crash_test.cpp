// What watchers of presence know after a crash at any moment.
#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/message/topics.h"
#include "server/session/users/presence.h"
#include "server/store/sqlite_ledger.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"
#include "tests/support/memory_rows.h"
#include "tests/support/presence_watcher.h"
#include "tests/support/quiet_log.h"

using namespace pulsegate;

namespace {

/// Users that come and go before the crash, as far as the disk gets: a known user, a new user,
/// and a user with a stored session.
class People {
public:
    explicit People(DurableCluster& brokers)
        : brokers_(brokers),
          old_(brokers, "old"),
          fresh_(brokers, "fresh"),
          kept_(brokers, "kept") {}

    void begin() {
        old_.connect(true);
        brokers_.settle();
        old_.send("e0 00");
        brokers_->end_turn();
        brokers_.settle();
    }
    void play(const std::function<void()>& step) {
        old_.connect(true);
        step();
        fresh_.connect(true);
        step();
        kept_.connect(false);
        step();
        old_.lose_connection();
        step();
        old_.connect(true);
        step();
        fresh_.lose_connection();
        step();
    }
    void bring_back_old() {
        shown_ = known(brokers_, "old")->version;
        old_.connect(true);
        brokers_.settle();
    }
    bool is_old_shown_as_before() const {
        const User* const old = known(brokers_, "old");
        return old->online() && old->version == shown_;
    }

private:
    std::uint64_t shown_ = 0;
    DurableCluster& brokers_;
    PlainClient old_;
    PlainClient fresh_;
    PlainClient kept_;
};

/// Watchers with a stored session, of everybody or of one user each.
std::vector<std::string> filters() {
    return {"presence/+", "presence/old", "presence/fresh", "presence/kept"};
}

/// Plays until the disk dies at that step; true if it does not.
bool survives(unsigned shards, std::uint64_t step) {
    DurableCluster brokers(shards);
    std::vector<Watcher> watchers;
    for (const std::string& filter : filters())
        watchers.emplace_back(brokers, "watcher-of-" + filter.substr(9), filter);
    const auto read_all = [&] {
        for (Watcher& watcher : watchers) watcher.read();
    };
    for (Watcher& watcher : watchers) watcher.subscribe();
    brokers.settle();
    People people(brokers);
    people.begin();
    read_all();
    bool lives = true;
    brokers.disk().fail_at(brokers.disk().steps() + step, FaultyDisk::Fault::kill);
    try {
        people.play([&] {
            brokers.deliver();
            read_all();
            brokers.commit();
            brokers.deliver();
            read_all();
        });
    } catch (const DiskIsDead&) {
        lives = false;
    }
    read_all();
    brokers.crash();
    for (Watcher& watcher : watchers) watcher.come_back();
    const auto check = [&] {
        brokers.settle();
        for (int pages = 0; pages < 20; ++pages) {
            read_all();
            brokers.settle();
        }
        for (const Watcher& watcher : watchers)
            for (const auto& [user, state] : watcher.known()) {
                if (user.starts_with("watcher")) continue;
                CAPTURE(user);
                const User* const there = known(brokers, user);
                REQUIRE(there);
                CHECK(there->online() == state.online);
                CHECK(there->version == state.version);
            }
    };
    check();
    if (const User* const old = known(brokers, "old"); old && old->online()) {
        people.bring_back_old();
        CHECK(people.is_old_shown_as_before());
        check();
    }
    pass_time(brokers, limit + 1000);
    check();
    for (const char* user : {"fresh", "kept"})
        if (const User* const there = known(brokers, user)) CHECK_FALSE(there->online());
    return lives;
}

}  // namespace

TEST_CASE(
    "after a crash at any step, all watchers learn which users are online and which are not back") {
    for (const unsigned shards : {1, 2})
        for (std::uint64_t step = 1;; ++step) {
            CAPTURE(shards);
            CAPTURE(step);
            if (survives(shards, step)) break;
            REQUIRE(step < 1000);
        }
}

TEST_CASE("a version that was not stored does not come again after a crash") {
    DurableCluster brokers;
    PlainClient ann(brokers, "ann");
    ann.connect(true);
    brokers.settle();
    ann.send("e0 00");
    brokers->end_turn();
    brokers.settle();
    ann.connect(true);
    ann.lose_connection();
    ann.connect(true);  // nothing of it is on disk
    const std::uint64_t told = known(brokers, "ann")->version;
    brokers.crash();
    const std::uint64_t after = known(brokers, "ann")->version;
    CHECK(after > told);
    // And it does not fall at the start after the next one, although its row says less.
    brokers.crash();
    CHECK(known(brokers, "ann")->version >= after);
    ann.connect(true);
    CHECK(known(brokers, "ann")->version > after);
}

TEST_CASE("a user that a crash made unknown comes back with a higher version") {
    DurableCluster brokers;
    PlainClient ann(brokers, "ann");
    ann.connect(true);
    const std::uint64_t told = known(brokers, "ann")->version;
    brokers.crash();
    CHECK_FALSE(known(brokers, "ann"));
    ann.connect(true);
    CHECK(known(brokers, "ann")->version > told);
}

TEST_CASE("a user that was forgotten before an orderly stop comes back with a higher version") {
    DurableCluster brokers;
    PlainClient ann(brokers, "ann");
    brokers.crash();  // versions are ahead of the clock from now on
    ann.connect(true);
    brokers.settle();
    ann.lose_connection();
    brokers.settle();
    const std::uint64_t told = known(brokers, "ann")->version;
    REQUIRE(brokers->broker(0).admin().forget_user("ann"));
    brokers.settle();
    brokers.stop();
    brokers.start();
    ann.connect(true);
    CHECK(known(brokers, "ann")->version > told);
}

TEST_CASE("watchers are told of a new user when the user is stored") {
    DurableCluster brokers(2);
    Watcher watcher(brokers, "watcher", "presence/+");
    watcher.subscribe();
    brokers.settle();
    watcher.read();
    PlainClient ann(brokers, "ann");
    ann.connect(true);
    brokers.deliver();
    watcher.read();
    CHECK(watcher.known().count("ann") == 0);
    // Nor does a client that subscribes now.
    Watcher newcomer(brokers, "newcomer", "presence/ann");
    newcomer.subscribe();
    brokers.deliver();
    newcomer.read();
    CHECK(newcomer.known().empty());
    brokers.commit();
    brokers.deliver();
    watcher.read();
    newcomer.read();
    REQUIRE(watcher.known().count("ann") == 1);
    CHECK(watcher.known().at("ann").online);
    CHECK(newcomer.known().count("ann") == 1);
    // From now on at once.
    ann.lose_connection();
    brokers.deliver();
    watcher.read();
    CHECK_FALSE(watcher.known().at("ann").online);
}

TEST_CASE("a new user that has left before it is stored is announced as online, then as offline") {
    DurableCluster brokers;
    PlainClient watcher(brokers, "watcher");
    watcher.connect(true);
    watcher.send("82 r k1 s'presence/ann' 00");
    brokers.settle();
    watcher.take();
    PlainClient ann(brokers, "ann");
    ann.connect(true);
    ann.lose_connection();
    brokers.deliver();
    CHECK(watcher.take_messages().empty());
    brokers.settle();
    const auto messages = watcher.take_messages();
    REQUIRE(messages.size() == 2);
    CHECK(messages[0].text.find("online") != std::string::npos);
    CHECK(messages[1].text.find("offline") != std::string::npos);
}

TEST_CASE("a new user is told of when a disk that has failed takes it") {
    DurableCluster brokers;
    Watcher watcher(brokers, "watcher", "presence/+");
    watcher.subscribe();
    brokers.settle();
    brokers.disk().fail_at(brokers.disk().steps() + 1, FaultyDisk::Fault::full, 3);
    PlainClient ann(brokers, "ann");
    ann.connect(true);
    brokers.settle();
    watcher.read();
    CHECK(watcher.known().count("ann") == 0);
    CHECK_FALSE(brokers->broker(0).tick(brokers->now + 1000));
    brokers.settle();
    watcher.read();
    CHECK(watcher.known().count("ann") == 1);
}

namespace {

struct Handset : Device {
    Handset() : Device("handset", 0) {}
    Millis last_packet() const override { return 0; }
    Millis limit() const override { return 0; }
};

}  // namespace

TEST_CASE(
    "a version that was told while nothing could be stored is not above those after a crash") {
    const QuietLog quiet;
    MemoryRows rows;
    const SqliteLedger::Options options{.patience = std::chrono::milliseconds(20),
                                        .first_pause = std::chrono::milliseconds(1),
                                        .stop_patience = std::chrono::milliseconds(1),
                                        .rows = &rows};
    Ledger::Visitor nobody;
    MovedWallClock clock;
    std::uint64_t told = 0;
    {
        SqliteLedger ledger(options);
        ledger.load(nobody);
        rows.judge_by([](const auto&, bool) {
            return MemoryRows::Fate{RowStore::Answer::away, false};
        });
        clock.advance(300'000);
        Presence presence;
        Handset handset;
        User& user = presence.find_or_create("ann");
        presence.arrive(user, handset, wall_now());
        presence.depart(user, handset, Cause::logout, wall_now(), wall_now());
        told = user.version;
        clock.advance(-300'000);  // that of the next node
    }
    rows.judge_by({});
    SqliteLedger next(options);
    CHECK(next.load(nobody).version_floor >= told);
}
