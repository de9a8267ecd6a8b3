#include "server/base/clock.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "server/message/message.h"

using namespace pulsegate;

TEST_CASE("times are written with milliseconds, also those before 1970") {
    CHECK(rfc3339(0) == "1970-01-01T00:00:00.000Z");
    CHECK(rfc3339(-1) == "1969-12-31T23:59:59.999Z");
    CHECK(rfc3339(-1000) == "1969-12-31T23:59:59.000Z");
    CHECK(rfc3339(earliest_wall_time) == "2020-01-01T00:00:00.000Z");
    CHECK(rfc3339(latest_wall_time) == "2200-01-01T00:00:00.000Z");
}

TEST_CASE("a time before the process began has passed") {
    CHECK(tick_after(0) == 1);
    CHECK(tick_after(999) == 1);
    for (const Millis before : {-1, -1000, -3600000}) CHECK(tick_after(before) == 0);
}

TEST_CASE("stamps of all times that the clock may say are in order, and fit what SQLite can hold") {
    constexpr auto largest = static_cast<std::uint64_t>(INT64_MAX);
    CHECK(stamp_at(earliest_wall_time) < stamp_at(latest_wall_time));
    // And those of a clock that went on from a floor there for 40 years.
    CHECK(stamp_at(latest_wall_time + WallMillis{40} * 365 * 86'400'000) < largest);
    CHECK(time_of(stamp_at(latest_wall_time)) == latest_wall_time);
}

TEST_CASE("the clock of ends is not early, whether the wall clock is set ahead or back") {
    constexpr WallMillis an_hour = 3'600'000;
    const WallMillis before = expiry_clock(monotonic_now());
    MovedWallClock clock;
    clock.advance(an_hour);
    CHECK(expiry_clock(monotonic_now()) < before + an_hour / 2);
    clock.advance(-2 * an_hour);
    CHECK(expiry_clock(monotonic_now()) <= wall_now());
}

TEST_CASE("the calendar follows a wall clock that was set only when it is begun again") {
    constexpr WallMillis an_hour = 3'600'000;
    const auto behind = [] { return wall_now() - calendar_time(monotonic_now()); };
    {
        MovedWallClock clock;
        clock.advance(an_hour);
        CHECK(behind() > an_hour / 2);
        begin_calendar();
        CHECK(std::abs(behind()) < an_hour / 2);
    }
    begin_calendar();
    CHECK(std::abs(behind()) < an_hour / 2);
}

TEST_CASE("the calendar goes on while the machine is suspended, and never goes back") {
    constexpr Millis an_hour = 3'600'000;
    const WallMillis before = calendar_time(monotonic_now());
    {
        SuspendedMachine machine;
        machine.advance(999);
        CHECK(calendar_time(monotonic_now()) < before + an_hour / 2);
        machine.advance(an_hour);
        CHECK(calendar_time(monotonic_now()) >= before + an_hour);
    }
    CHECK(calendar_time(monotonic_now()) >= before + an_hour);
    begin_calendar();
    CHECK(calendar_time(monotonic_now()) < before + an_hour / 2);
}
