#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "loadgen/net/loop.h"
#include "tests/support/lab_peer.h"

namespace pulsegate {

namespace {

using load::Clock;
using load::Duration;
using load::Loop;
using load::Time;

constexpr std::chrono::milliseconds ms(1);

/// Calls a function as the owner of a loop.
struct TurnTaker : Loop::Owner {
    std::function<Time(Time, Duration)> take;
    Time turn(Time now, Duration late) override { return take(now, late); }
};

struct EventCounter : Loop::Handler {
    std::function<void()> also = [] {};
    int calls = 0;
    std::uint32_t last = 0;
    void ready(std::uint32_t events) override {
        ++calls;
        last = events;
        also();
    }
};

load::Descriptor new_eventfd() { return load::Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

}  // namespace

TEST_CASE("the owner of a loop is called when it asked to be, and told how late that is") {
    Loop loop;
    TurnTaker owner;
    std::vector<Duration> lateness;
    const Time start = Clock::now();
    owner.take = [&](Time now, Duration late) {
        lateness.push_back(late);
        CHECK(now >= start + 5 * ms * (static_cast<int>(lateness.size()) - 1));
        if (lateness.size() == 3) loop.stop();
        return start + 5 * ms * static_cast<int>(lateness.size());
    };
    loop.run(owner);
    CHECK(lateness.size() == 3);
    for (const Duration late : lateness) CHECK(late >= Duration::zero());
}

TEST_CASE("a loop can be asked to call its owner earlier") {
    Loop loop;
    TurnTaker owner;
    EventCounter handler;
    const auto event = new_eventfd();
    int turns = 0;
    owner.take = [&](Time, Duration) {
        if (++turns == 2) loop.stop();
        return Time::max();
    };
    handler.also = [&] { loop.wake_at(Clock::now()); };
    REQUIRE(loop.watch(event.get(), handler));
    eventfd_write(event.get(), 1);
    loop.run(owner);
    CHECK(turns == 2);
}

TEST_CASE("a handler that another one forgets is not called for what has happened before") {
    Loop loop;
    LabRun run(loop);
    EventCounter one;
    EventCounter other;
    const auto first = new_eventfd();
    const auto second = new_eventfd();
    one.also = [&] { loop.forget(other); };
    other.also = [&] { loop.forget(one); };
    REQUIRE(loop.watch(first.get(), one));
    REQUIRE(loop.watch(second.get(), other));
    eventfd_write(first.get(), 1);
    eventfd_write(second.get(), 1);
    run.settle();
    CHECK(one.calls + other.calls == 1);
}

TEST_CASE("a handler that waits to be called can be forgotten") {
    Loop loop;
    LabRun run(loop);
    EventCounter waits;
    EventCounter forgotten;
    loop.call_soon(waits);
    loop.call_soon(forgotten);
    loop.forget(forgotten);
    run.settle();
    CHECK(waits.calls == 1);
    CHECK(forgotten.calls == 0);
}

TEST_CASE("a loop has seen everything until its last wait but one, not what came meanwhile") {
    Loop loop;
    TurnTaker owner;
    std::vector<Time> turns;
    owner.take = [&](Time now, Duration) {
        if (turns.size() >= 2) CHECK(loop.seen_until() <= turns.back());
        if (turns.size() >= 2) CHECK(loop.seen_until() >= turns[turns.size() - 2]);
        turns.push_back(now);
        if (turns.size() == 5) loop.stop();
        return now + ms;
    };
    loop.run(owner);
    CHECK(turns.size() == 5);
}

TEST_CASE("a loop that is to keep a pace handles together what comes meanwhile") {
    Loop loop;
    LabRun run(loop);
    EventCounter handler;
    const auto event = new_eventfd();
    REQUIRE(loop.watch(event.get(), handler));
    loop.pace(5 * ms);
    const Time start = Clock::now();
    handler.also = [&] { eventfd_write(event.get(), 1); };  // always something to do
    run.until([&] { return handler.calls >= 4; });
    CHECK(Clock::now() - start >= 3 * 5 * ms);
}

TEST_CASE("a loop without anything to do waits until it is stopped") {
    Loop loop;
    TurnTaker owner;
    int turns = 0;
    owner.take = [&](Time, Duration) {
        ++turns;
        return Time::max();
    };
    std::thread other([&] { loop.stop(); });
    loop.run(owner);
    other.join();
    CHECK(turns == 1);
}

TEST_CASE("a loop that is run once handles what has happened, or returns in time") {
    Loop loop;
    const auto event = new_eventfd();
    EventCounter counter;
    REQUIRE(loop.watch(event.get(), counter));
    eventfd_write(event.get(), 1);
    loop.run_once(Time::max());
    const int calls = counter.calls;
    CHECK(calls > 0);
    const Time until = Clock::now() + 5 * ms;
    while (Clock::now() < until) loop.run_once(until);
    CHECK(counter.calls == calls);
}

}  // namespace pulsegate
