#include "wheel/wheel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace {

// The longest silence MQTT can ask for: one and a half keepalives of 65,535 s, rounded up.
constexpr Tick longest_timeout = 98'303;

struct Client : Wheel::Node {
    explicit Client(int number = 0) : id(number) {}
    int id;
};

Client& client(Wheel::Node& node) { return static_cast<Client&>(node); }

/// Advances, and returns the ids of expired nodes.
std::multiset<int> expired(Wheel& wheel, Tick now) {
    std::multiset<int> ids;
    wheel.advance(now, [&](Wheel::Node& node) { ids.insert(client(node).id); });
    return ids;
}

/// The tick at which the only node expires when the owner advances tick by tick.
Tick expiry(Wheel& wheel) {
    REQUIRE(wheel.size() == 1);
    const Tick last = wheel.now() + 2 * longest_timeout;
    while (expired(wheel, wheel.now() + 1).empty()) {
        if (wheel.now() == last) FAIL("it never expires");
    }
    return wheel.now();
}

}  // namespace

TEST_CASE("a node expires exactly at its deadline, at every phase and for any number of laps") {
    for (Tick phase = 0; phase < Wheel::slots; ++phase) {
        for (Tick timeout : {1u, 2u, 29u, 30u, 31u, 59u, 60u, 61u, 90u, 900u, 901u}) {
            CAPTURE(phase);
            CAPTURE(timeout);
            Wheel wheel(phase);
            Client node;
            wheel.schedule(node, phase + timeout);
            CHECK(expiry(wheel) == phase + timeout);
        }
    }
}

TEST_CASE("the longest MQTT timeout expires exactly at its deadline") {
    for (Tick timeout : {longest_timeout - 23, longest_timeout}) {  // 98,280 is a multiple of 30
        Wheel wheel(17);
        Client node;
        wheel.schedule(node, 17 + timeout);
        CHECK(expiry(wheel) == 17 + timeout);
    }
}

TEST_CASE(
    "an owner that rounds up to schedule and down to advance is never early nor a tick late") {
    constexpr std::uint32_t second = 1000;
    for (std::uint32_t start = 0; start < 31 * second; start += 239) {
        for (std::uint32_t timeout : {1u, 999u, 1000u, 1500u, 29'999u, 30'000u, 30'001u, 60'000u}) {
            Wheel wheel(start / second);
            Client node;
            wheel.schedule(node, (start + timeout + second - 1) / second);
            std::uint32_t time = start;
            while (time < start + timeout + second && expired(wheel, time / second).empty()) ++time;
            CHECK(time >= start + timeout);
            CHECK(time < start + timeout + second);
        }
    }
}

TEST_CASE("a client that keeps talking never expires, whatever its timeout") {
    for (Tick timeout : {2u, 29u, 30u, 31u, 60u, 90u}) {
        CAPTURE(timeout);
        Wheel wheel(11);
        Client node;
        for (int touch = 0; touch < 100; ++touch) {
            wheel.schedule(node, wheel.now() + timeout);
            REQUIRE(expired(wheel, wheel.now() + timeout - 1).empty());
        }
        CHECK(expiry(wheel) == node.deadline());
    }
}

TEST_CASE("a deadline can be brought forward") {
    Wheel wheel;
    Client node;
    wheel.schedule(node, 95);
    wheel.schedule(node, 5);  // the same slot, three laps sooner
    CHECK(expiry(wheel) == 5);
}

TEST_CASE("a deadline that is not after now is due at the next tick") {
    for (Tick deadline : {0u, 70u, 99u, 100u}) {
        CAPTURE(deadline);
        Wheel wheel(100);
        Client node;
        wheel.schedule(node, deadline);
        CHECK(node.deadline() == 101);
        CHECK(expired(wheel, 100).empty());
        CHECK(expiry(wheel) == 101);
    }
}

TEST_CASE("a late tick expires exactly the nodes that became due in the meantime") {
    Wheel wheel;
    std::array<Client, 100> clients;
    for (int id = 0; id < 100; ++id) {
        clients[id].id = id;
        wheel.schedule(clients[id], static_cast<Tick>(id + 1));
    }
    CHECK(expired(wheel, 1) == std::multiset{0});
    CHECK(expired(wheel, 4) == std::multiset{1, 2, 3});
    CHECK(expired(wheel, 34).size() == 30);
    CHECK(expired(wheel, 35) == std::multiset{34});  // being late once leaves no lag behind
    CHECK(wheel.size() == 65);
}

TEST_CASE("a jump of several laps expires each due node once, and no other") {
    for (Tick jump : {30u, 31u, 59u, 60u, 61u, 300u, 1000u}) {
        CAPTURE(jump);
        Wheel wheel(7);
        std::array<Client, 2000> clients;
        for (int id = 0; id < 2000; ++id) {
            clients[id].id = id;
            wheel.schedule(clients[id], wheel.now() + 1 + static_cast<Tick>(id));
        }
        const std::multiset<int> ids = expired(wheel, wheel.now() + jump);
        CHECK(ids.size() == jump);
        CHECK(*ids.begin() == 0);
        CHECK(*ids.rbegin() == static_cast<int>(jump) - 1);
        CHECK(wheel.size() == 2000 - jump);
    }
}

TEST_CASE("no node expires if time stands still or moves back") {
    Wheel wheel(50);
    Client node;
    wheel.schedule(node, 51);
    CHECK(expired(wheel, 50).empty());
    CHECK(expired(wheel, 20).empty());
    CHECK(wheel.now() == 50);
    CHECK(expiry(wheel) == 51);
}

TEST_CASE("a client added again while its slot is swept gets its whole timeout") {
    for (Tick phase = 0; phase < Wheel::slots; ++phase) {
        for (Tick timeout : {1u, 29u, 30u, 31u, 60u, 300u}) {
            CAPTURE(phase);
            CAPTURE(timeout);
            Wheel wheel(phase);
            Client first(1), second(2);
            wheel.schedule(first, phase + 30);
            wheel.schedule(second, phase + 30);

            // Each of them touches both: itself, and the one that went before or is still to come.
            std::multiset<int> called;
            wheel.advance(phase + 30, [&](Wheel::Node& node) {
                called.insert(client(node).id);
                CHECK_FALSE(node.scheduled());
                wheel.schedule(first, wheel.now() + timeout);
                wheel.schedule(second, wheel.now() + timeout);
            });
            CHECK(called.size() == 1);  // the other one was rescued
            CHECK(wheel.count((phase + timeout) % Wheel::slots) == 2);
            CHECK(wheel.size() == 2);
            CHECK(expired(wheel, phase + 30 + timeout - 1).empty());
            CHECK(expired(wheel, phase + 30 + timeout) == std::multiset{1, 2});
        }
    }
}

TEST_CASE("a callback may cancel nodes that were due together with its own") {
    Wheel wheel;
    Client first(1), second(2), third(3);
    for (Client* each : {&first, &second, &third}) wheel.schedule(*each, 10);
    std::multiset<int> called;
    wheel.advance(10, [&](Wheel::Node& node) {
        called.insert(client(node).id);
        for (Client* each : {&first, &second, &third}) wheel.cancel(*each);
    });
    CHECK(called.size() == 1);
    CHECK(wheel.size() == 0);
}

TEST_CASE("a callback may destroy its own node, and those that are due or waiting") {
    Wheel wheel;
    std::array<std::unique_ptr<Client>, 5> clients;
    for (int id = 0; id < 5; ++id) {
        clients[id] = std::make_unique<Client>(id);
        wheel.schedule(*clients[id], id < 4 ? 10 : 40);
    }
    int calls = 0;
    wheel.advance(10, [&](Wheel::Node&) {
        ++calls;
        for (auto& each : clients) each.reset();
    });
    CHECK(calls == 1);
    CHECK(wheel.size() == 0);
    CHECK(wheel.count(10) == 0);
}

TEST_CASE("what a callback schedules in the past is due at the next tick, not in this one") {
    Wheel wheel;
    Client old(1), fresh(2);
    wheel.schedule(old, 10);
    int calls = 0;
    wheel.advance(10, [&](Wheel::Node&) {
        ++calls;
        wheel.schedule(old, 3);
        wheel.schedule(fresh, 10);
    });
    CHECK(calls == 1);
    CHECK(expired(wheel, 11) == std::multiset{1, 2});
}

TEST_CASE("a callback that throws leaves the others to the next advance") {
    Wheel wheel;
    Client first(1), second(2);
    wheel.schedule(first, 10);
    wheel.schedule(second, 10);
    CHECK_THROWS(wheel.advance(10, [](Wheel::Node&) { throw std::runtime_error("no"); }));
    CHECK(wheel.size() == 1);
    CHECK(expired(wheel, 10).size() == 1);
}

TEST_CASE("a wheel that is destroyed leaves its nodes unscheduled, those that are due as well") {
    Client first(1), second(2), later(3);
    {
        Wheel wheel;
        wheel.schedule(first, 10);
        wheel.schedule(second, 10);
        wheel.schedule(later, 11);
        CHECK_THROWS(wheel.advance(10, [](Wheel::Node&) { throw std::runtime_error("no"); }));
    }
    CHECK_FALSE(first.scheduled());
    CHECK_FALSE(second.scheduled());
    CHECK_FALSE(later.scheduled());
}

TEST_CASE("cancelling takes the node out at once") {
    Wheel wheel;
    Client node;
    wheel.cancel(node);  // never scheduled: harmless
    wheel.schedule(node, 100);
    CHECK(node.scheduled());
    CHECK(wheel.count(100 % Wheel::slots) == 1);
    wheel.cancel(node);
    CHECK_FALSE(node.scheduled());
    CHECK(wheel.count(100 % Wheel::slots) == 0);
    CHECK(wheel.size() == 0);
    wheel.cancel(node);
    CHECK(expired(wheel, 200).empty());
}

TEST_CASE("destroying a node cancels it") {
    Wheel wheel;
    Client before(1), after(3);
    wheel.schedule(before, 10);
    {
        Client between(2);
        wheel.schedule(between, 10);
        wheel.schedule(after, 10);
        CHECK(wheel.count(10) == 3);
    }
    CHECK(wheel.count(10) == 2);
    CHECK(expired(wheel, 10) == std::multiset{1, 3});
}

TEST_CASE("a node outlives its wheel, and may move to another") {
    Client node;
    Wheel second(40);
    {
        Wheel first;
        first.schedule(node, 45);
        second.schedule(node, 45);  // the same slot, but not the same wheel
        CHECK(first.size() == 0);
        CHECK(second.size() == 1);
        first.schedule(node, 45);
        CHECK(second.size() == 0);
    }
    CHECK_FALSE(node.scheduled());
    second.schedule(node, 45);
    CHECK(expiry(second) == 45);
}

TEST_CASE("a visit ends when the visitor says so") {
    Wheel wheel;
    std::vector<std::unique_ptr<Client>> clients;
    for (int id = 0; id < 100; ++id) {
        clients.push_back(std::make_unique<Client>(id));
        wheel.schedule(*clients.back(), static_cast<Tick>(1 + id));
    }
    for (const int most : {1, 7, 100, 1000}) {
        int visited = 0;
        wheel.for_each_while([&](Wheel::Node&) { return ++visited < most; });
        CHECK(visited == std::min(most, 100));
    }
}

TEST_CASE("every node is visited, and may be cancelled and destroyed by that") {
    Wheel wheel;
    std::vector<std::unique_ptr<Client>> clients;
    for (int id = 0; id < 100; ++id) {
        clients.push_back(std::make_unique<Client>(id));
        wheel.schedule(*clients.back(), static_cast<Tick>(1 + id * 977));
    }
    // One that is due and was not handed out yet is visited too.
    CHECK(wheel.advance(
        1000, [](Wheel::Node&) {}, 1));
    std::multiset<int> visited;
    wheel.for_each([&](Wheel::Node& node) {
        const int id = client(node).id;
        visited.insert(id);
        if (id % 2 == 0)
            Wheel::cancel(node);
        else
            clients[static_cast<std::size_t>(id)].reset();
    });
    CHECK(visited.size() == 99);
    CHECK(std::set<int>(visited.begin(), visited.end()).size() == 99);
    CHECK(wheel.size() == 0);
}
