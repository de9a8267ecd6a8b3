#include "server/base/coroutine.h"

#include <doctest/doctest.h>

#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

using namespace pulsegate;

namespace {

/// Where a coroutine waits.
struct Place {
    std::optional<SuspendedCoroutine> waiting;

    struct Awaiter {
        Place& place;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> coroutine) { place.waiting.emplace(coroutine); }
        void await_resume() const noexcept {}
    };
    Awaiter operator co_await() { return {*this}; }
};

/// Counts in `alive` how many there are.
struct Counted {
    explicit Counted(int& alive) : alive(&alive) { ++alive; }
    Counted(Counted&& other) noexcept : alive(std::exchange(other.alive, nullptr)) {}
    ~Counted() {
        if (alive) --*alive;
    }
    int* alive;
};

DetachedCoroutine wait_twice(Place& place, Counted owned, int& steps) {
    const Counted another(*owned.alive);
    ++steps;
    co_await place;
    ++steps;
    co_await place;
    ++steps;
}

}  // namespace

TEST_CASE("a detached coroutine runs when it is called and when it is resumed, and is gone then") {
    Place place;
    int alive = 0;
    int steps = 0;
    wait_twice(place, Counted(alive), steps);
    CHECK(steps == 1);
    CHECK(alive == 2);
    for (int step = 2; step <= 3; ++step) {
        auto waiting = std::move(*place.waiting);
        place.waiting.reset();
        waiting.resume();
        CHECK(steps == step);
    }
    CHECK_FALSE(place.waiting);
    CHECK(alive == 0);
}

TEST_CASE("a coroutine that is not resumed is destroyed with all that it owns") {
    int alive = 0;
    int steps = 0;
    {
        Place place;
        wait_twice(place, Counted(alive), steps);
        SuspendedCoroutine waiting = std::move(*place.waiting);
        CHECK(alive == 2);
    }
    CHECK(alive == 0);
    CHECK(steps == 1);
}
