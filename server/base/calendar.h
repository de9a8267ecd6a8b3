#pragma once

namespace pulsegate {

/// Has `calendar_time` go on from the wall clock as it is now, instead of as it was when the
/// process began. A node that has stood by for long calls it when it begins to serve: its clock may
/// have been set meanwhile. Before any thread uses that time.
void begin_calendar();

}  // namespace pulsegate
