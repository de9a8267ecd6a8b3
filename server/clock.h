#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "wheel/wheel.h"

namespace pulsegate {

/// Milliseconds on the monotonic clock since the process began. Every deadline is in these: a step
/// of the wall clock must not end a connection.
using Millis = std::int64_t;

/// Milliseconds since 1970, UTC: what people and backends are shown.
using WallMillis = std::int64_t;

inline constexpr Millis tick_length = 1000;

Millis monotonic_now();
WallMillis wall_now();
/// Seconds since 1970, as tokens and backends count.
inline std::int64_t unix_now() { return wall_now() / 1000; }

/// The tick that time has reached: a deadline of this tick has passed.
inline Tick tick_at(Millis now) { return static_cast<Tick>(now / tick_length); }

/// The first tick after `when`. Strictly after, because `when` was rounded down to a millisecond
/// and no deadline may come early.
inline Tick tick_after(Millis when) { return static_cast<Tick>(when / tick_length + 1); }

/// RFC 3339 in UTC with milliseconds: "2026-11-20T13:36:22.123Z".
std::string rfc3339(WallMillis when);

}  // namespace pulsegate
