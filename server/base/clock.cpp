#include "server/base/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <ctime>

namespace pulsegate {

namespace {

Millis steady_now() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

const WallMillis wall_at_start = wall_now();
std::atomic<Millis> began_at{steady_now() - wall_at_start % 1000};
std::atomic<Millis> stopped_at{0};  // 0: the clock runs
std::atomic<WallMillis> moved_by{0};
/// When the monotonic clock was 0. At first this is a whole second, so that ticks begin with the
/// seconds.
std::atomic<WallMillis> calendar_began{wall_at_start - wall_at_start % 1000};

std::atomic<Millis> boot_moved_by{0};

/// How long the machine was suspended since it was started. If the thread is interrupted between
/// the two clocks, this is less.
Millis suspended_time() {
    const Millis boot = boot_now();
    return boot - steady_now();
}

/// The same, but it is hardly ever less.
Millis exact_suspended_time() {
    return std::max({suspended_time(), suspended_time(), suspended_time()});
}

std::atomic<Millis> suspended_at_begin{exact_suspended_time()};  // of the calendar
std::atomic<Millis> suspended_since{0};                          // the longest time that was seen

/// How long the machine was suspended since the calendar began. Less than a second may come from
/// an interruption of this thread, and does not count.
Millis suspended_since_begin() {
    const Millis seen = suspended_time() - suspended_at_begin;
    Millis longest = suspended_since;
    if (seen < 1000) return longest;
    while (seen > longest && !suspended_since.compare_exchange_weak(longest, seen)) {
    }
    return std::max(seen, longest);
}

}  // namespace

Millis monotonic_now() {
    const Millis stopped = stopped_at.load(std::memory_order_acquire);
    if (stopped != 0) [[unlikely]]
        return stopped;
    return steady_now() - began_at.load(std::memory_order_relaxed);
}

Millis boot_now() {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return Millis{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000 +
           boot_moved_by.load(std::memory_order_relaxed);
}

SuspendedMachine::~SuspendedMachine() { boot_moved_by = 0; }

void SuspendedMachine::advance(Millis time) { boot_moved_by += time; }

StoppedClock::StoppedClock() {
    assert(stopped_at == 0);
    stopped_at = std::max<Millis>(monotonic_now(), 1);
}

StoppedClock::~StoppedClock() {
    began_at = steady_now() - stopped_at;
    stopped_at = 0;
}

void StoppedClock::advance(Millis time) { stopped_at += time; }

WallMillis system_clock_now() {
    timespec time{};  // the nanoseconds of std::chrono would overflow in 2262
    ::clock_gettime(CLOCK_REALTIME, &time);
    return WallMillis{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000 +
           moved_by.load(std::memory_order_relaxed);
}

WallMillis wall_now() {
    return std::clamp(system_clock_now(), earliest_wall_time, latest_wall_time);
}

MovedWallClock::~MovedWallClock() { moved_by = 0; }

void MovedWallClock::advance(WallMillis time) { moved_by += time; }

WallMillis calendar_time(Millis now) { return calendar_began + now + suspended_since_begin(); }

WallMillis no_later_than(Millis past, Millis now) {
    return std::min(wall_now() - (now - past), calendar_began + past);
}

WallMillis expiry_clock(Millis now) { return std::min(wall_now(), calendar_time(now)); }

/// Exact to the millisecond, because otherwise work that another node has dated would be early.
/// Ticks don't begin with its seconds any longer, so work may be up to a second late.
void begin_calendar(Millis now) {
    calendar_began = wall_now() - now;
    suspended_at_begin = exact_suspended_time();
    suspended_since = 0;
}

std::string rfc3339(WallMillis when) {
    const WallMillis millis = (when % 1000 + 1000) % 1000;  // valid before 1970, too
    const std::time_t seconds = (when - millis) / 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, millis);
}

}  // namespace pulsegate
