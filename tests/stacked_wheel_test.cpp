#include "wheel/stacked_wheel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "wheel/wheel.h"

using namespace pulsegate;

namespace {

constexpr Tick day = 86'400;
constexpr Tick reach = 729'000'000;  // 30^6
constexpr Tick end_of_time = ~Tick{0};

/// How many ticks a slot of each level spans.
constexpr std::array<Tick, StackedWheel::levels> spans{1, 30, 900, 27'000, 810'000, 24'300'000};

struct Stay : StackedWheel::Node {
    explicit Stay(int number = 0) : id(number) {}
    int id;
};

Stay& stay(StackedWheel::Node& node) { return static_cast<Stay&>(node); }

/// Advances, and returns the ids of expired nodes.
std::multiset<int> expired(StackedWheel& wheel, Tick now) {
    std::multiset<int> ids;
    wheel.advance(now, [&](StackedWheel::Node& node) { ids.insert(stay(node).id); });
    return ids;
}

/// The tick at which the only node expires when the owner advances tick by tick.
Tick expiry(StackedWheel& wheel, Tick last) {
    REQUIRE(wheel.size() == 1);
    while (expired(wheel, wheel.now() + 1).empty()) {
        if (wheel.now() == last) FAIL("it never expires");
    }
    return wheel.now();
}

/// Whether the only node expires at the tick, and not at the one before it.
bool expires_at(StackedWheel& wheel, Tick tick) {
    return expired(wheel, tick - 1).empty() && expired(wheel, tick).size() == 1;
}

/// What is likely to break a wheel of levels: multiples of each level's span, and their neighbours.
std::vector<Tick> awkward_timeouts(Tick longest) {
    std::set<Tick> timeouts;
    for (const Tick span : spans)
        for (const Tick times : {1u, 2u, 29u, 30u, 31u, 60u, 61u})
            for (const Tick timeout : {span * times - 1, span * times, span * times + 1})
                if (timeout > 0 && timeout <= longest) timeouts.insert(timeout);
    return {timeouts.begin(), timeouts.end()};
}

}  // namespace

TEST_CASE("on stacked wheels a node expires exactly at its deadline when time goes tick by tick") {
    for (const Tick phase : {0u, 1u, 15u, 29u, 30u, 31u, 870u, 899u, 900u, 901u, 26'999u, 27'000u,
                             27'001u, 809'999u, 24'299'999u}) {
        for (const Tick timeout : awkward_timeouts(54'001)) {
            CAPTURE(phase);
            CAPTURE(timeout);
            StackedWheel wheel(phase);
            Stay node;
            wheel.schedule(node, phase + timeout);
            CHECK(expiry(wheel, phase + timeout) == phase + timeout);
        }
    }
}

TEST_CASE("on stacked wheels a node expires exactly at its deadline, at every phase") {
    for (Tick phase = 0; phase < 930; ++phase) {
        for (const Tick timeout : {1u, 29u, 30u, 31u, 59u, 60u, 61u, 899u, 900u, 901u}) {
            CAPTURE(phase);
            CAPTURE(timeout);
            StackedWheel wheel(phase);
            Stay node;
            wheel.schedule(node, phase + timeout);
            CHECK(expiry(wheel, phase + timeout) == phase + timeout);
        }
    }
}

TEST_CASE("on stacked wheels no jump up to the tick before a deadline reaches it") {
    for (const Tick phase : {0u, 29u, 900u, 26'999u, 809'999u, 24'299'999u, 728'999'999u}) {
        for (const Tick timeout : awkward_timeouts(reach * 2)) {
            CAPTURE(phase);
            CAPTURE(timeout);
            StackedWheel wheel(phase);
            Stay node;
            wheel.schedule(node, phase + timeout);
            CHECK(expires_at(wheel, phase + timeout));
        }
    }
}

TEST_CASE("on stacked wheels a node is moved down in time however long the jumps are") {
    for (const Tick jump : {7u, 29u, 30u, 31u, 899u, 900u, 901u, 26'999u, 27'001u, 810'000u}) {
        for (const Tick timeout : awkward_timeouts(jump * 2'000)) {
            CAPTURE(jump);
            CAPTURE(timeout);
            StackedWheel wheel(17);
            Stay node;
            wheel.schedule(node, 17 + timeout);
            Tick now = 17;
            while (expired(wheel, now + jump).empty() && now < 17 + timeout) now += jump;
            CHECK(now < 17 + timeout);
            CHECK(now + jump >= 17 + timeout);
        }
    }
}

TEST_CASE("deadlines that the stacked wheels don't reach wait on the highest of them") {
    for (const Tick deadline : {reach - 1, reach, reach + 1, 2 * reach, 5 * reach + 12'345,
                                end_of_time - 1, end_of_time}) {
        CAPTURE(deadline);
        StackedWheel wheel;
        Stay node;
        wheel.schedule(node, deadline);
        Tick now = 0;
        while (deadline - now > 10 * day) {
            now += std::min<Tick>(deadline - now - 1, 23 * day + 4'567);
            REQUIRE(expired(wheel, now).empty());
        }
        CHECK(expires_at(wheel, deadline));
    }
}

TEST_CASE("after a month of suspension, exactly the due nodes expire") {
    StackedWheel wheel(123'456);
    std::array<Stay, 2'000> stays;
    for (int id = 0; id < 2'000; ++id) {
        stays[id].id = id;
        wheel.schedule(stays[id], wheel.now() + static_cast<Tick>(id + 1) * 3'600);
    }
    const auto ids = expired(wheel, wheel.now() + 30 * day);
    CHECK(ids.size() == 720);
    CHECK(*ids.begin() == 0);
    CHECK(*ids.rbegin() == 719);
    CHECK(wheel.size() == 1'280);
    for (int id = 720; id < 2'000; ++id) {  // being late once leaves no lag behind
        REQUIRE(expired(wheel, stays[id].deadline() - 1).empty());
        REQUIRE(expired(wheel, stays[id].deadline()) == std::multiset{id});
    }
}

TEST_CASE("long jumps cost stacked wheels a look at their slots, not one at every tick") {
    constexpr Tick jump = 100'000'000;
    for (Tick phase = 0; phase < 100'000; ++phase) {  // tick by tick these were 10^13
        StackedWheel wheel(phase);
        Stay node;
        wheel.schedule(node, phase + jump);
        REQUIRE(expires_at(wheel, phase + jump));
    }
}

TEST_CASE("no node on stacked wheels expires if time stands still or moves back") {
    StackedWheel wheel(950);
    Stay node;
    wheel.schedule(node, 951);
    CHECK(expired(wheel, 950).empty());
    CHECK(expired(wheel, 20).empty());
    CHECK(wheel.now() == 950);
    CHECK(expiry(wheel, 951) == 951);
}

TEST_CASE("a deadline that is not after now is due at the stacked wheels' next tick") {
    for (const Tick deadline : {0u, 70u, 899u, 900u}) {
        CAPTURE(deadline);
        StackedWheel wheel(900);
        Stay node;
        wheel.schedule(node, deadline);
        CHECK(node.deadline() == 901);
        CHECK(expired(wheel, 900).empty());
        CHECK(expiry(wheel, 901) == 901);
    }
}

TEST_CASE("deadlines on stacked wheels can be brought forward and put off") {
    StackedWheel wheel(7);
    Stay node;
    wheel.schedule(node, 7 * day);
    wheel.schedule(node, 20);
    CHECK(wheel.size() == 1);
    CHECK(expired(wheel, 19).empty());
    wheel.schedule(node, 901);
    CHECK(expired(wheel, 900).empty());
    wheel.schedule(node, 7 * day);
    CHECK(wheel.size() == 1);
    CHECK(expires_at(wheel, 7 * day));
}

TEST_CASE("stacked wheels expire so many at a time as they are asked for") {
    StackedWheel wheel;
    std::array<Stay, 10> stays;
    for (int id = 0; id < 10; ++id) {
        stays[id].id = id;
        wheel.schedule(stays[id], id < 7 ? 1'000 : 1'001);
    }
    int calls = 0;
    const auto expire = [&](StackedWheel::Node&) { ++calls; };
    CHECK(wheel.advance(1'000, expire, 3));
    CHECK(calls == 3);
    CHECK(wheel.size() == 7);
    CHECK(wheel.advance(1'000, expire, 0));
    CHECK(calls == 3);

    const auto waits = [](const Stay& each) { return each.scheduled() && each.id < 7; };
    wheel.cancel(*std::find_if(stays.begin(), stays.end(), waits));
    wheel.schedule(*std::find_if(stays.begin(), stays.end(), waits), 5'000);
    CHECK_FALSE(wheel.advance(1'000, expire, stays.size()));
    CHECK(calls == 5);
    CHECK_FALSE(wheel.advance(1'001, expire, 3));
    CHECK(calls == 8);
    CHECK(expires_at(wheel, 5'000));
}

TEST_CASE("nodes of a full slot move down over several calls, and time waits for them") {
    StackedWheel wheel;
    std::array<Stay, 1'000> stays;
    for (Stay& each : stays) wheel.schedule(each, 905);
    std::size_t calls = 0;
    const auto expire = [&](StackedWheel::Node&) { ++calls; };
    for (std::size_t i = 1; i < 10; ++i) {
        REQUIRE(wheel.advance(905, expire, SIZE_MAX, 100));
        REQUIRE(calls == i * 100);
    }
    CHECK_FALSE(wheel.advance(905, expire, SIZE_MAX, 100));
    CHECK(calls == 1'000);

    for (Stay& each : stays) wheel.schedule(each, 1'805);
    calls = 0;
    REQUIRE(wheel.advance(1'800, expire, SIZE_MAX, 100));
    for (int i = 1; i < 9; ++i) {
        REQUIRE(wheel.advance(1'805, expire, SIZE_MAX, 100));
        REQUIRE(wheel.now() == 1'800);
    }
    CHECK(calls == 0);
    while (wheel.advance(1'805, expire, SIZE_MAX, 100)) continue;
    CHECK(wheel.now() == 1'805);
    CHECK(calls == 1'000);
}

TEST_CASE("what is put where nodes are moving down waits for the next lap") {
    StackedWheel wheel;
    std::array<Stay, 10> stays;
    for (Stay& each : stays) wheel.schedule(each, 20);
    std::multiset<int> ids;
    const auto expire = [&](StackedWheel::Node& node) { ids.insert(stay(node).id); };
    CHECK(wheel.advance(20, expire, SIZE_MAX, 5));
    Stay late(7);
    wheel.schedule(late, 50);  // the slot of tick 20
    wheel.cancel(*std::ranges::find_if(stays, [](Stay& each) { return each.scheduled(); }));
    CHECK_FALSE(wheel.advance(20, expire, SIZE_MAX, 100));
    CHECK(ids.size() == 9);
    CHECK(wheel.size() == 1);
    CHECK(expires_at(wheel, 50));
}

TEST_CASE("a node that was due at the stacked wheels and got more time is not called") {
    StackedWheel wheel;
    Stay first(1), second(2);
    wheel.schedule(first, 900);
    wheel.schedule(second, 900);
    std::multiset<int> called;
    wheel.advance(900, [&](StackedWheel::Node& node) {
        called.insert(stay(node).id);
        CHECK_FALSE(node.scheduled());
        wheel.schedule(first, 1'800);
        wheel.schedule(second, 1'800);
    });
    CHECK(called.size() == 1);
    CHECK(expired(wheel, 1'799).empty());
    CHECK(expired(wheel, 1'800) == std::multiset{1, 2});
}

TEST_CASE("a callback of stacked wheels may destroy its own node, and those due or waiting") {
    StackedWheel wheel;
    std::array<std::unique_ptr<Stay>, 6> stays;
    for (int id = 0; id < 6; ++id) {
        stays[id] = std::make_unique<Stay>(id);
        wheel.schedule(*stays[id], id < 4 ? 900 : id == 4 ? 920 : 7 * day);
    }
    int calls = 0;
    wheel.advance(900, [&](StackedWheel::Node&) {
        ++calls;
        for (auto& each : stays) each.reset();
    });
    CHECK(calls == 1);
    CHECK(wheel.size() == 0);
}

TEST_CASE("a callback of stacked wheels may cancel those that were due together with its own") {
    StackedWheel wheel;
    Stay first(1), second(2), third(3);
    for (Stay* each : {&first, &second, &third}) wheel.schedule(*each, 1'000);
    int calls = 0;
    wheel.advance(2'000, [&](StackedWheel::Node&) {
        ++calls;
        for (Stay* each : {&first, &second, &third}) wheel.cancel(*each);
    });
    CHECK(calls == 1);
    CHECK(wheel.size() == 0);
}

TEST_CASE("what a callback of stacked wheels schedules in the past is due at the next tick") {
    StackedWheel wheel;
    Stay old(1), fresh(2);
    wheel.schedule(old, 900);
    int calls = 0;
    wheel.advance(900, [&](StackedWheel::Node&) {
        ++calls;
        wheel.schedule(old, 3);
        wheel.schedule(fresh, 900);
    });
    CHECK(calls == 1);
    CHECK(expired(wheel, 901) == std::multiset{1, 2});
}

TEST_CASE("a callback of stacked wheels that throws leaves the others to the next advance") {
    StackedWheel wheel;
    Stay first(1), second(2);
    wheel.schedule(first, 10);
    wheel.schedule(second, 10);
    CHECK_THROWS(wheel.advance(10, [](StackedWheel::Node&) { throw std::runtime_error("no"); }));
    CHECK(wheel.size() == 1);
    CHECK(expired(wheel, 10).size() == 1);
}

TEST_CASE("stacked wheels that are destroyed leave their nodes unscheduled, the due ones as well") {
    std::array<Stay, 8> stays;
    {
        StackedWheel wheel;
        Tick deadline = 1;
        for (Stay& each : stays) {
            wheel.schedule(each, deadline);
            deadline *= 20;
        }
        const auto ignore = [](StackedWheel::Node&) { FAIL("not asked for"); };
        CHECK(wheel.advance(20, ignore, 0));
        CHECK(wheel.size() == 8);
    }
    for (const Stay& each : stays) CHECK_FALSE(each.scheduled());
}

TEST_CASE("cancelling and destroying take a node out of stacked wheels at once") {
    StackedWheel wheel;
    Stay node;
    wheel.cancel(node);  // never scheduled: harmless
    wheel.schedule(node, 7 * day);
    CHECK(node.scheduled());
    wheel.cancel(node);
    CHECK_FALSE(node.scheduled());
    CHECK(wheel.size() == 0);
    {
        Stay brief;
        wheel.schedule(node, 7 * day);
        wheel.schedule(brief, 7 * day);
        CHECK(wheel.size() == 2);
    }
    CHECK(wheel.size() == 1);
    CHECK(expires_at(wheel, 7 * day));
}

TEST_CASE("one object may wait on a wheel and on stacked wheels") {
    struct Both : Wheel::Node, StackedWheel::Node {};
    Wheel wheel;
    StackedWheel stacked;
    Both both;
    wheel.schedule(both, 30);
    stacked.schedule(both, 900);
    Wheel::cancel(both);
    CHECK(wheel.size() == 0);
    CHECK(expires_at(stacked, 900));
}
