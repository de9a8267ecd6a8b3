#pragma once

namespace pulsegate {

/// Makes `calendar_time` go on from the wall clock as it is now; before, it goes on from the wall
/// clock at the start of the process. A standby node calls it when it begins to serve, because its
/// clock may have been set meanwhile. Call it before any thread uses that time.
void begin_calendar();

}  // namespace pulsegate
