#pragma once

#include <chrono>

namespace pulsegate::load {

/// Monotonic, so that a step of the wall clock can't cause a false expiry.
using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Duration = Clock::duration;

inline double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

inline Duration from_seconds(double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace pulsegate::load
