#pragma once

#include "server/base/clock.h"

namespace pulsegate {

/// While there is one, the wall clock is wrong by what it is told, as if somebody had set it: tests
/// of what lasts over restarts need not wait for it then.
class MovedWallClock {
public:
    MovedWallClock() = default;
    ~MovedWallClock();
    MovedWallClock(const MovedWallClock&) = delete;
    MovedWallClock& operator=(const MovedWallClock&) = delete;

    void advance(WallMillis time);
};

}  // namespace pulsegate
