#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "wheel/wheel.h"

namespace pulsegate {

/// Milliseconds on the monotonic clock since the process began. Every deadline uses them, so that a
/// step of the wall clock ends no connection.
using Millis = std::int64_t;

/// Milliseconds since 1970, UTC, for people and backends.
using WallMillis = std::int64_t;

inline constexpr Millis tick_length = 1000;

Millis monotonic_now();

/// Milliseconds since the machine was started, with those in which it slept. They tell for how long
/// other machines may have waited for this process.
Millis boot_now();

/// While there is one, monotonic time stands still, and moves when it is told to: tests of
/// deadlines need not wait for them then. It never goes back, also not when the clock runs again.
/// Timers of event loops go on all the time.
class StoppedClock {
public:
    StoppedClock();
    ~StoppedClock();
    StoppedClock(const StoppedClock&) = delete;
    StoppedClock& operator=(const StoppedClock&) = delete;

    void advance(Millis time);
};

/// What the system's clock says, which may be anything.
WallMillis system_clock_now();

/// A clock outside of 2020 to 2199 can't be right. Stamps of messages and versions of presence have
/// room for these years, and none for those before 1970 or after 2248.
inline constexpr WallMillis earliest_wall_time = 1'577'836'800'000;
inline constexpr WallMillis latest_wall_time = 7'258'118'400'000;

/// The system's clock; outside of these years, the nearest time within them. The gateway does not
/// start by a clock that is not (see `main`), but it may be set while it runs.
WallMillis wall_now();

/// The wall clock as it was at the start, moved on by the monotonic one: what is due at a date
/// follows it, and no step of the wall clock makes it early. Ticks are where its seconds begin.
WallMillis calendar_time(Millis now);

/// Seconds since 1970, UTC, as in JWTs and in the hook's messages.
inline std::int64_t unix_now() { return wall_now() / 1000; }

/// The current tick: deadlines of this tick have passed.
inline Tick tick_at(Millis now) { return static_cast<Tick>(now / tick_length); }

/// The first tick after `when`. Strictly after, because `when` was rounded down to a millisecond
/// and no deadline may come early.
inline Tick tick_after(Millis when) { return static_cast<Tick>(when / tick_length + 1); }

/// RFC 3339 in UTC with milliseconds: "2026-11-20T13:36:22.123Z".
std::string rfc3339(WallMillis when);

}  // namespace pulsegate
