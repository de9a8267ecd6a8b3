#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "loadgen/measure/measurements.h"

namespace pulsegate::load {

/// What was measured in a second of a run, or in a few if the run is long.
struct Stretch {
    std::uint32_t second = 0;  ///< from the start of the run
    std::uint32_t length = 1;  ///< seconds
    Measurements measured;

    double middle() const { return second + length / 2.0; }
};

/// Collects the measurements of a run by second. Of a long run, neighbours are joined, so that a
/// day takes no more memory than ten minutes. Counts and times of joined seconds are added up,
/// levels are averaged, but for those of which the largest counts.
class Series {
public:
    static constexpr std::size_t most = 600;  ///< stretches of a long run
    /// So many seconds stay by themselves, because workers still add to them.
    static constexpr std::uint32_t open_seconds = 60;

    /// What `source`, a worker or an observer, has measured in a second since it was here last. It
    /// may come several times for one second: counts and times are added, while its levels replace
    /// those that it gave before.
    void add(std::uint32_t second, const Measurements& measured, std::uint32_t source = 0);

    /// In order.
    std::vector<Stretch> stretches() const;

    /// The seconds from `first` to `last`, both included, as far as they are still by themselves.
    Measurements recent(std::uint32_t first, std::uint32_t last) const;

    /// Of one second; empty if nothing was measured, or if it is not by itself any more.
    const Measurements& at(std::uint32_t second) const;

    std::uint32_t latest() const { return latest_; }

private:
    using Levels = std::array<double, gauges_size>;

    void level(std::uint32_t second, const Measurements& measured, std::uint32_t source);
    void settle();
    void put(const Stretch& stretch);
    void widen();

    std::map<std::uint32_t, Measurements> open_;
    std::map<std::uint32_t, std::map<std::uint32_t, Levels>> levels_;  ///< of those, by source
    std::map<std::uint32_t, Stretch> settled_;  ///< by their first second, a multiple of `width_`
    std::uint32_t width_ = 1;
    std::uint32_t latest_ = 0;
};

/// Adds what was measured in another second, or other seconds, to `into`.
void join(Stretch& into, const Stretch& later);

/// The sum of those that begin in [from, to).
Measurements between(const std::vector<Stretch>& series, double from, double to);

}  // namespace pulsegate::load
