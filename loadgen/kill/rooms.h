#pragma once

#include "loadgen/kill/run_context.h"

namespace pulsegate::kill {

/// Makes each receiver a member of its room, through the broker's HTTP API. Throws
/// std::runtime_error if the API refuses this.
void fill_rooms(const RunContext& context);

}  // namespace pulsegate::kill
