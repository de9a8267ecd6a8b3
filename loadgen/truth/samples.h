#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "loadgen/measure/measurements.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// Measurements by the second of the run in which they belong.
class Samples {
public:
    void start(Time at) { start_ = at; }

    /// Times before the start belong to the first second.
    std::uint32_t second_of(Time at) const {
        return at <= start_ ? 0
                            : static_cast<std::uint32_t>((at - start_) / std::chrono::seconds(1));
    }
    Measurements& at(Time time) { return seconds_[second_of(time)]; }

    std::map<std::uint32_t, Measurements> take() { return std::exchange(seconds_, {}); }

private:
    Time start_{};
    std::map<std::uint32_t, Measurements> seconds_;
};

}  // namespace pulsegate::load
