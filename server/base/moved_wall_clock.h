#pragma once

#include "server/base/clock.h"

namespace pulsegate {

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

}  // namespace pulsegate
