#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loadgen/swarm/chat.h"
#include "loadgen/swarm/deliveries.h"
#include "loadgen/swarm/swarm.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// A worker's data for the others at the end, packed for the control connection: u32 the receiving
/// worker, u8 the kind of data (totals of flows, or when clients were alive), and the data.
std::vector<Swarm::Frame> truth_frames(const SwarmState& state, const Chat& chat,
                                       const Watchers& watchers);

/// Returns false if it is not such a frame, or not for this worker.
[[nodiscard]] bool read_truth_frame(std::span<const std::uint8_t> body, const SwarmState& state,
                                    Deliveries& deliveries, Watchers& watchers);

}  // namespace pulsegate::load
