#include <doctest/doctest.h>

#include "loadgen/swarm/swarm.h"

namespace pulsegate::load {

namespace {

using namespace std::chrono_literals;

/// One hostile client, which comes after this time.
Assignment hostile_assignment(Duration after) {
    Assignment assignment;
    Group& group = assignment.scenario.groups.emplace_back();
    group.clients = 1;
    group.hostile = Hostile::garbage;
    assignment.scenario.hostile_after = after;
    return assignment;
}

}  // namespace

TEST_CASE("a run lasts until hostile clients had as long as the quiet time before them") {
    const auto settled_after = [](Duration elapsed, Duration quiet) {
        Loop loop;
        Swarm swarm(loop, hostile_assignment(quiet));
        const Time begin = Clock::now() - elapsed;
        swarm.start(begin);
        swarm.go(begin);
        return swarm.settled();
    };
    CHECK_FALSE(settled_after(60min, 61min));  // they have not come
    CHECK_FALSE(settled_after(60min, 40min));
    CHECK(settled_after(60min, 20min));
    CHECK(settled_after(0s, 0s));
}

TEST_CASE("a run waits for silent clients that have not come yet") {
    Assignment assignment;
    Group& group = assignment.scenario.groups.emplace_back();
    group.clients = 1;
    group.silent = 1;
    group.starts = 60min;
    Loop loop;
    Swarm swarm(loop, assignment);
    const Time begin = Clock::now();
    swarm.start(begin);
    swarm.go(begin);
    CHECK_FALSE(swarm.settled());
}

}  // namespace pulsegate::load
