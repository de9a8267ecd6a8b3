#include <doctest/doctest.h>

#include "loadgen/client/unreleased.h"

namespace pulsegate::load {

namespace {

using namespace std::chrono_literals;
using Repetition = Unreleased::Arrival;

constexpr Time unreleased_begin{1h};

}  // namespace

TEST_CASE("a message without a PUBREL may come again, and no other one under its identifier") {
    Unreleased messages;
    CHECK(messages.empty());
    CHECK(messages.arrive(7, 100, unreleased_begin) == Repetition::first);
    CHECK(messages.arrive(7, 100, unreleased_begin) == Repetition::again);
    CHECK(messages.arrive(7, 101, unreleased_begin) == Repetition::other);
    CHECK(messages.arrive(8, 101, unreleased_begin + 1s) == Repetition::first);
    CHECK(messages.count(unreleased_begin + 1s) == 1);
    CHECK(messages.count(unreleased_begin + 2s) == 2);

    CHECK(messages.release(7));
    CHECK_FALSE(messages.release(7));
    CHECK(messages.arrive(7, 101, unreleased_begin + 2s) == Repetition::first);
    messages.clear();
    CHECK(messages.empty());
}

TEST_CASE("a server that never sends a PUBREL takes little memory, and none is miscounted") {
    Unreleased messages;
    Time now = unreleased_begin;
    for (std::uint16_t id = 1; id <= 50'000; ++id, now += 100ms) {
        CHECK(messages.arrive(id, id, now) == Repetition::first);
        CHECK(messages.memory() <= 32 * 1024);
    }
    CHECK(messages.count(now) == 50'000);
    CHECK(messages.count(now - 5s) == 49'950);

    CHECK(messages.arrive(1, 1, now) == Repetition::again);
    CHECK(messages.arrive(50'000, 1, now) == Repetition::other);
    CHECK(messages.release(1));
    CHECK_FALSE(messages.release(1));
    CHECK(messages.count(now) == 49'999);
    CHECK(messages.arrive(1, 2, now) == Repetition::first);

    for (std::uint16_t id = 1; id <= 50'000; ++id) CHECK(messages.release(id));
    CHECK(messages.empty());
    CHECK(messages.memory() <= 32 * 1024);
}

TEST_CASE("many messages that wait for their PUBREL for a short time are all remembered whole") {
    Unreleased messages;
    for (std::uint16_t id = 1; id <= 1'000; ++id)
        CHECK(messages.arrive(id, id, unreleased_begin) == Repetition::first);
    for (std::uint16_t id = 1; id <= 1'000; ++id)
        CHECK(messages.arrive(id, 0, unreleased_begin + 9s) == Repetition::other);
}

}  // namespace pulsegate::load
