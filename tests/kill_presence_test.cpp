#include <doctest/doctest.h>

#include "loadgen/kill/checks.h"
#include "loadgen/kill/presence_checker.h"
#include "loadgen/report/checks.h"

using namespace pulsegate::kill;
using namespace std::chrono_literals;

namespace {

constexpr auto alices_limit = 30s;

bool keeps(const PresenceChecker& checker) {
    return overall(checks_of(checker)) != pulsegate::load::CheckResult::Outcome::failed;
}

/// Alice has been online for long, and a watcher has been there since then.
struct Watched {
    PresenceChecker checker;
    Time now{1h};

    Watched() {
        checker.change("alice", true, now, alices_limit);
        checker.begin_watching("watcher", true, now);
        now += truth_after;
    }
    void tell(bool online, std::uint64_t version) {
        checker.tell("watcher", "alice", {online, version}, now);
    }
    /// The broker is killed, and cuts alice off.
    void kill() {
        checker.broker_killed(now);
        checker.end_watching("watcher");
        checker.change("alice", false, now, alices_limit);
    }
    void serve(Duration later) {
        now += later;
        checker.broker_serves(now, now);
        checker.begin_watching("watcher", true, now);
    }
    std::string only_fault() const {
        REQUIRE(checker.faults().size() == 1);
        return checker.faults().front().what;
    }
};

}  // namespace

TEST_CASE_FIXTURE(Watched, "kill: presence is kept if versions grow and the last word is true") {
    tell(false, 1);
    tell(true, 2);
    tell(true, 2);
    checker.compare(now);
    CHECK(checker.told() == 3);
    CHECK(keeps(checker));
}

TEST_CASE_FIXTURE(Watched, "kill: a version that falls is a fault") {
    tell(true, 5);
    tell(true, 4);
    CHECK(checker.fallen() == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() ==
          "presence: version fell: watcher was told that alice is online at 4, after online at 5");
    tell(true, 5);  // the highest counts
    CHECK(checker.fallen() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: a version falls for one watcher, even if it begins anew") {
    tell(true, 5);
    checker.begin_watching("other", true, now);
    checker.tell("other", "alice", {true, 4}, now);
    CHECK(checker.fallen() == 0);
    checker.begin_watching("watcher", true, now);
    tell(true, 4);
    CHECK(checker.fallen() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: a version that is repeated with another state is a fault") {
    tell(true, 5);
    tell(false, 5);
    CHECK(checker.fallen() == 1);
    CHECK(only_fault() ==
          "presence: version repeated: watcher was told that alice is online and offline at 5");
}

TEST_CASE_FIXTURE(Watched, "kill: a state that stays untrue is a fault, once") {
    tell(true, 1);
    checker.change("alice", false, now, alices_limit);
    now += truth_after - 1ms;
    checker.compare(now);
    CHECK(keeps(checker));
    now += 1ms;
    checker.compare(now);
    checker.compare(now + 1s);
    CHECK(checker.untrue() == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() ==
          "presence: untrue: watcher takes alice for online, who has been offline for 3 s");
    checker.change("alice", true, now, alices_limit);
    checker.change("alice", false, now, alices_limit);
    checker.compare(now + truth_after);
    CHECK(checker.untrue() == 2);
}

TEST_CASE_FIXTURE(Watched, "kill: a state is untrue only after a stall of this program as well") {
    tell(true, 1);
    checker.change("alice", false, now, alices_limit);
    now += truth_after;
    checker.stall(1s, now);
    checker.compare(now);
    CHECK(keeps(checker));
    checker.compare(now + 1s);
    CHECK(checker.untrue() == 1);
}

TEST_CASE_FIXTURE(Watched,
                  "kill: a user that may have come back late in a stall may be shown offline") {
    tell(true, 1);
    kill();
    serve(2s);
    now += 29s;
    checker.change("alice", std::nullopt, now, alices_limit);
    now += 1s;
    SUBCASE("after a stall") {
        checker.stall(900ms, now);
        tell(false, 2);
        CHECK(checker.offline_in_time() == 0);
    }
    SUBCASE("without a stall") {
        tell(false, 2);
        CHECK(checker.offline_in_time() == 1);
    }
}

TEST_CASE_FIXTURE(Watched, "kill: a watcher that was told nothing takes everybody for offline") {
    checker.compare(now);
    CHECK(checker.untrue() == 1);
    CHECK(only_fault() ==
          "presence: untrue: watcher takes alice for offline, who has been online for 3 s");
}

TEST_CASE_FIXTURE(
    Watched,
    "kill: a watcher with a new session forgets, and a watcher with a kept session does not") {
    tell(true, 1);
    checker.begin_watching("watcher", false, now);
    checker.compare(now + truth_after);
    CHECK(keeps(checker));
    checker.begin_watching("watcher", true, now);
    checker.compare(now + truth_after);
    CHECK(checker.untrue() == 1);
}

TEST_CASE_FIXTURE(Watched,
                  "kill: nothing is expected of watchers that are away or have just come") {
    checker.end_watching("watcher");
    checker.compare(now);
    checker.begin_watching("watcher", false, now);
    checker.compare(now + truth_after - 1ms);
    CHECK(keeps(checker));
    checker.compare(now + truth_after);
    CHECK(checker.untrue() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: during a login both states are true") {
    checker.change("alice", std::nullopt, now, alices_limit);
    checker.compare(now + truth_after);
    CHECK(keeps(checker));
}

TEST_CASE_FIXTURE(Watched,
                  "kill: a user that is back in time after a kill must not be shown as offline") {
    tell(true, 5);
    kill();
    serve(2s);
    SUBCASE("nor is it") {
        checker.tell("other", "alice", {false, 4}, now);  // was under way to it
        tell(true, 5);
        now += alices_limit - 1s;
        checker.change("alice", std::nullopt, now, alices_limit);
        checker.change("alice", true, now, alices_limit);
        now += 1h;
        checker.compare(now);
        checker.change("alice", false, now, alices_limit);
        tell(false, 6);
        checker.compare(now + 1h);
        CHECK(keeps(checker));
        return;
    }
    SUBCASE("before it is back") { tell(false, 6); }
    SUBCASE("afterwards") {
        checker.change("alice", std::nullopt, now, alices_limit);
        checker.change("alice", true, now, alices_limit);
        tell(false, 6);
        tell(true, 7);
    }
    SUBCASE("after a second kill") {
        now += 20s;
        kill();
        serve(2s);
        now += 20s;
        tell(false, 6);
    }
    CHECK(checker.offline_in_time() == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() ==
          "presence: offline in time: watcher was told that alice is offline, who was online when "
          "the broker was killed, and had time to come back");
}

TEST_CASE_FIXTURE(Watched,
                  "kill: a user that is not back in time after a kill must be shown as offline") {
    tell(true, 5);
    kill();
    serve(2s);
    tell(true, 5);
    CHECK(checker.settled() == now + alices_limit + grace_rounding + truth_after);
    now += alices_limit;
    checker.compare(now);
    SUBCASE("soon") {
        tell(false, 6);
        checker.compare(now + 1h);
        CHECK(keeps(checker));
    }
    SUBCASE("and a ghost is found") {
        checker.compare(checker.settled() - 1ms);
        CHECK(keeps(checker));
        checker.compare(checker.settled());
        CHECK(only_fault() ==
              "presence: untrue: watcher takes alice for online, who has been offline for 3 s");
    }
}

TEST_CASE_FIXTURE(Watched, "kill: until the limit a watcher must take a user for online") {
    tell(true, 5);
    kill();
    serve(2s);
    checker.compare(now + truth_after);
    CHECK(only_fault() ==
          "presence: untrue: watcher takes alice for offline, who has been online for 3 s");
}

TEST_CASE_FIXTURE(Watched,
                  "kill: a user that has come or gone just before a kill may be shown as either") {
    SUBCASE("it has come") {
        checker.change("alice", false, now, alices_limit);
        tell(false, 5);
        now += 1h;
        checker.change("alice", true, now, alices_limit);
        tell(true, 6);
    }
    SUBCASE("it has gone") {
        tell(true, 6);
        checker.change("alice", false, now, alices_limit);
    }
    now += 1s;
    kill();
    serve(2s);
    tell(false, 7);
    now += alices_limit - 1s;
    checker.compare(now);
    CHECK(keeps(checker));
    tell(true, 8);
    checker.compare(checker.settled());
    CHECK(checker.untrue() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: after a stop everybody is offline at once") {
    tell(true, 5);
    checker.broker_stopped();
    tell(false, 6);
    checker.change("alice", false, now, alices_limit);
    serve(2s);
    tell(true, 7);
    checker.compare(now + truth_after);
    CHECK(checker.untrue() == 1);
    CHECK(checker.offline_in_time() == 0);
}
