#pragma once

#include "server/base/clock.h"

namespace pulsegate {

/// Makes `calendar_time` continue from the present time of the wall clock. Before the call, it
/// continues from the wall clock at the start of the process. A standby node calls it when it
/// begins to serve, because its clock may have been set meanwhile. Call it before any thread uses
/// that time. Tests have their own monotonic clock.
void begin_calendar(Millis now = monotonic_now());

}  // namespace pulsegate
