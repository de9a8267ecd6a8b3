#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loadgen/swarm/chat.h"
#include "loadgen/swarm/deliveries.h"
#include "loadgen/swarm/swarm.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// What a worker tells the others at the end, packed for the control connection: u32 the worker
/// that it is for, u8 what follows (totals of flows, or facts of who was alive), and those.
std::vector<Swarm::Frame> truth_frames(const SwarmState& state, const Chat& chat,
                                       const Watchers& watchers);

/// False: that is no such frame, or not for this worker.
[[nodiscard]] bool read_truth_frame(std::span<const std::uint8_t> body, const SwarmState& state,
                                    Deliveries& deliveries, Watchers& watchers);

}  // namespace pulsegate::load
