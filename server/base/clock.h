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

/// Milliseconds since the machine was started, including the time in which it was suspended. They
/// show how long other machines may have waited for this process.
Millis boot_now();

/// While an object of this class exists, monotonic time stops, and moves only when it is told to.
/// So tests of deadlines need not wait. Time never goes back, even when the clock runs again.
/// Timers of event loops are not affected.
class StoppedClock {
public:
    StoppedClock();
    ~StoppedClock();
    StoppedClock(const StoppedClock&) = delete;
    StoppedClock& operator=(const StoppedClock&) = delete;

    void advance(Millis time);
};

/// The time of the system's clock, which may be wrong.
WallMillis system_clock_now();

/// While an object of this class exists, the wall clock is off by a given time, as if it had been
/// set. So tests of data that outlives restarts need not wait.
class MovedWallClock {
public:
    MovedWallClock() = default;
    ~MovedWallClock();
    MovedWallClock(const MovedWallClock&) = delete;
    MovedWallClock& operator=(const MovedWallClock&) = delete;

    void advance(WallMillis time);
};

/// A clock outside of 2020 to 2199 can't be right. Stamps of messages and versions of presence have
/// room for these years, but not for years before 1970 or after 2248.
inline constexpr WallMillis earliest_wall_time = 1'577'836'800'000;
inline constexpr WallMillis latest_wall_time = 7'258'118'400'000;

/// The time of the system's clock, limited to these years. The gateway does not start with a clock
/// outside of them (see `main`), but the clock may be set while it runs.
WallMillis wall_now();

/// While an object of this class exists, the machine seems to have been suspended for a given time.
class SuspendedMachine {
public:
    SuspendedMachine() = default;
    ~SuspendedMachine();
    SuspendedMachine(const SuspendedMachine&) = delete;
    SuspendedMachine& operator=(const SuspendedMachine&) = delete;

    void advance(Millis time);
};

/// The wall clock at the start, moved on by the monotonic clock and by the time in which the
/// machine was suspended. Work that is due at a date uses it, so no step of the wall clock makes it
/// early. Ticks begin with its seconds, until the machine is suspended.
WallMillis calendar_time(Millis now);

/// Makes `calendar_time` continue from the present time of the wall clock. Before the call, it
/// continues from the wall clock at the start of the process. A standby node calls it when it
/// begins to serve, because its clock may have been set meanwhile. Call it before any thread uses
/// that time. Tests have their own monotonic clock.
void begin_calendar(Millis now = monotonic_now());

/// A time of the wall clock at which `past` had not come yet, or was just there. It is too early by
/// the time in which the machine was suspended.
WallMillis no_later_than(Millis past, Millis now);

/// The wall clock, or `calendar_time` while the wall clock is ahead of it. Data that ends at a date
/// is deleted by this time, so no step of the wall clock deletes data early.
WallMillis expiry_clock(Millis now);

/// Seconds since 1970, UTC, for JWTs and the hook's messages.
inline std::int64_t unix_now() { return wall_now() / 1000; }

/// The current tick. Deadlines of this tick have passed.
inline Tick tick_at(Millis now) { return static_cast<Tick>(now / tick_length); }

/// The first tick after `when`. Strictly after, because `when` was rounded down to a millisecond
/// and no deadline may come early. Tick 0 if `when` was before this process began: an upgrade takes
/// over such times.
inline Tick tick_after(Millis when) {
    return when < 0 ? 0 : static_cast<Tick>(when / tick_length + 1);
}

/// RFC 3339 in UTC with milliseconds: "2026-11-20T13:36:22.123Z".
std::string rfc3339(WallMillis when);

}  // namespace pulsegate
