#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pulsegate::load {

class Chat;
class Deliveries;
class SwarmState;
class Watchers;

/// Data for the worker with this number.
struct TruthFrame {
    std::uint32_t worker;
    std::string body;
};

/// A worker's data for the others at the end, packed for the control connection: u32 the receiving
/// worker, u8 the kind of data (totals of flows, or when clients were alive), and the data.
std::vector<TruthFrame> truth_frames(const SwarmState& state, const Chat& chat,
                                     const Watchers& watchers);

/// Returns false if it is not such a frame, or not for this worker.
[[nodiscard]] bool read_truth_frame(std::span<const std::uint8_t> body, const SwarmState& state,
                                    Deliveries& deliveries, Watchers& watchers);

}  // namespace pulsegate::load
