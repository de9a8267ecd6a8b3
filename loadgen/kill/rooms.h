#pragma once

#include "loadgen/kill/scene.h"

namespace pulsegate::kill {

/// Makes each receiver a member of its room, through the broker's HTTP API. Throws
/// std::runtime_error if the API refuses this.
void fill_rooms(const Scene& scene);

}  // namespace pulsegate::kill
