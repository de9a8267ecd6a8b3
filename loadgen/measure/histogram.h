#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "loadgen/time.h"

namespace pulsegate::load {

/// Counts durations in buckets that grow with the value, 128 for each doubling, so that percentiles
/// are exact to 1 % from a nanosecond to centuries, in 60 kB. Minimum, mean and maximum are exact.
class Histogram {
public:
    void add(Duration value);
    void add(const Histogram& others);

    std::uint64_t count() const { return count_; }
    bool empty() const { return count_ == 0; }
    Duration min() const { return min_; }
    Duration max() const { return max_; }
    Duration mean() const;

    double sum() const { return sum_; }  ///< nanoseconds

    /// The buckets in use as (index, count), in order. With `min`, `max` and `sum` they are the
    /// complete histogram: `restored` makes it again in another process.
    std::vector<std::pair<std::uint32_t, std::uint64_t>> buckets() const;
    static Histogram restored(const std::vector<std::pair<std::uint32_t, std::uint64_t>>& buckets,
                              Duration min, Duration max, double sum);

    /// Larger indexes are not valid.
    static constexpr std::uint32_t most_buckets = 64 << 7;

    /// The largest value that falls into a bucket.
    static Duration upper_edge(std::uint32_t bucket) { return Duration(highest(bucket)); }

    /// The value that is not exceeded by `fraction` (0 to 1) of all values.
    Duration percentile(double fraction) const;

private:
    static constexpr int precision = 7;  ///< bits kept of a value, after its leading one
    static constexpr std::size_t half = std::size_t{1} << precision;

    static std::size_t bucket(std::uint64_t value);
    static std::uint64_t highest(std::size_t bucket);

    std::vector<std::uint64_t> counts_;  ///< grows to the largest bucket in use
    std::uint64_t count_ = 0;
    double sum_ = 0;
    Duration min_{};
    Duration max_{};
};

}  // namespace pulsegate::load
