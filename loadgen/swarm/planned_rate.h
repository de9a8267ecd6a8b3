#pragma once

#include <span>
#include <vector>

#include "loadgen/scenario/scenario.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// An open loop: events at planned times, with a rate that peaks change, whatever happened to
/// earlier events. A delay appears in the measurements instead of reducing the load.
class PlannedRate {
public:
    PlannedRate() = default;

    /// The first event is `phase` (0 to 1) of an interval after `start`, so that workers with equal
    /// rates take turns. Peaks count from `start`.
    PlannedRate(Time start, double rate, std::span<const Peak> peaks, double phase)
        : start_(start), rate_(rate), peaks_(peaks.begin(), peaks.end()), next_(start) {
        advance(phase);
    }

    bool due(Time now) const { return next_ <= now; }
    Time next() const { return next_; }  ///< `Time::max()`: never

    /// Takes the next event and returns its planned time.
    Time take() {
        const Time planned = next_;
        advance(1);
        return planned;
    }

private:
    double rate_at(Time time) const;
    Time change_after(Time time) const;
    void advance(double events);

    Time start_{};
    double rate_ = 0;
    std::vector<Peak> peaks_;
    Time next_ = Time::max();
};

}  // namespace pulsegate::load
