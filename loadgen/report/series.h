#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "loadgen/measure/measurements.h"

namespace pulsegate::load {

/// The measurements of one second of a run, or of a few seconds if the run is long.
struct Stretch {
    std::uint32_t second = 0;  ///< from the start of the run
    std::uint32_t length = 1;  ///< seconds
    Measurements measured;

    double middle() const { return second + length / 2.0; }
};

/// Collects the measurements of a run by second. In a long run, neighbouring seconds are joined, so
/// that a day takes no more memory than ten minutes. Counts and times of joined seconds are added
/// up. Levels are averaged, except levels of which the largest counts.
class Series {
public:
    static constexpr std::size_t most = 600;  ///< stretches of a long run
    /// This many seconds stay separate, because workers still add to them.
    static constexpr std::uint32_t open_seconds = 60;

    /// Adds the new measurements of `source`, a worker or an observer, for one second. It may be
    /// called several times for one second: counts and times are added, while levels replace the
    /// earlier levels of this source.
    void add(std::uint32_t second, const Measurements& measured, std::uint32_t source = 0);

    /// In order.
    std::vector<Stretch> stretches() const;

    /// The sum of the seconds from `first` to `last`, including both, as far as they are still
    /// separate.
    Measurements recent(std::uint32_t first, std::uint32_t last) const;

    /// The measurements of one second; empty if nothing was measured, or if the second is no longer
    /// separate.
    const Measurements& at(std::uint32_t second) const;

    std::uint32_t latest() const { return latest_; }

private:
    using Levels = std::array<double, gauges_size>;

    void level(std::uint32_t second, const Measurements& measured, std::uint32_t source);
    void settle();
    void put(const Stretch& stretch);
    void widen();

    std::map<std::uint32_t, Measurements> open_;
    std::map<std::uint32_t, std::map<std::uint32_t, Levels>> levels_;  ///< levels of these seconds,
                                                                       ///< by source
    std::map<std::uint32_t, Stretch> settled_;  ///< by their first second, a multiple of `width_`
    std::uint32_t width_ = 1;
    std::uint32_t latest_ = 0;
};

/// Adds the measurements of another stretch to `into`.
void join(Stretch& into, const Stretch& later);

/// The stretches that lie entirely within [from, to]. In a long run a stretch has several seconds,
/// so it may begin in one part of the run and end in the next.
std::vector<Stretch> whole_stretches(const std::vector<Stretch>& series, double from, double to);

/// The sum of the stretches that begin in [from, to).
Measurements between(const std::vector<Stretch>& series, double from, double to);

}  // namespace pulsegate::load
