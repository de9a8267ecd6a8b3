#pragma once

#include "server/base/clock.h"

namespace pulsegate {

/// Makes `calendar_time` go on from the wall clock as it is now; before, it goes on from the wall
/// clock at the start of the process. A standby node calls it when it begins to serve, because its
/// clock may have been set meanwhile. Call it before any thread uses that time. Tests have a
/// monotonic clock of their own.
void begin_calendar(Millis now = monotonic_now());

}  // namespace pulsegate
