#pragma once

#include <cstdint>

#include "loadgen/time.h"

namespace pulsegate::load {

/// An open loop: event i is planned for start + i / rate, whatever happened to earlier ones. A
/// delay shows in the measurements instead of reducing the load.
class Schedule {
public:
    Schedule() = default;
    Schedule(Time start, double rate) : start_(start), rate_(rate) {}

    Time planned(std::uint64_t event) const {
        return start_ + from_seconds(static_cast<double>(event) / rate_);
    }
    bool due(Time now) const { return rate_ > 0 && next() <= now; }
    Time next() const { return rate_ > 0 ? planned(taken_) : Time::max(); }

    /// Takes the next event and returns its number.
    std::uint64_t take() { return taken_++; }
    std::uint64_t taken() const { return taken_; }

private:
    Time start_{};
    double rate_ = 0;
    std::uint64_t taken_ = 0;
};

}  // namespace pulsegate::load
