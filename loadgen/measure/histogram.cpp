#include "loadgen/measure/histogram.h"

#include <algorithm>
#include <cmath>

namespace pulsegate::load {

void Histogram::add(Duration value) {
    value = std::max(value, Duration::zero());
    const auto at = bucket(static_cast<std::uint64_t>(value.count()));
    if (at >= counts_.size()) counts_.resize(at + 1);
    ++counts_[at];

    min_ = count_ == 0 ? value : std::min(min_, value);
    max_ = std::max(max_, value);
    sum_ += static_cast<double>(value.count());
    ++count_;
}

void Histogram::add(const Histogram& others) {
    if (others.empty()) return;
    min_ = empty() ? others.min_ : std::min(min_, others.min_);
    max_ = std::max(max_, others.max_);
    count_ += others.count_;
    sum_ += others.sum_;
    counts_.resize(std::max(counts_.size(), others.counts_.size()));
    for (std::size_t at = 0; at < others.counts_.size(); ++at) counts_[at] += others.counts_[at];
}

std::vector<std::pair<std::uint32_t, std::uint64_t>> Histogram::buckets() const {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> used;
    for (std::size_t at = 0; at < counts_.size(); ++at)
        if (counts_[at] > 0) used.emplace_back(static_cast<std::uint32_t>(at), counts_[at]);
    return used;
}

Histogram Histogram::restored(const std::vector<std::pair<std::uint32_t, std::uint64_t>>& buckets,
                              Duration min, Duration max, double sum) {
    Histogram histogram;
    for (const auto& [at, count] : buckets) {
        if (at >= most_buckets) continue;
        if (at >= histogram.counts_.size()) histogram.counts_.resize(at + 1);
        histogram.counts_[at] += count;
        histogram.count_ += count;
    }
    histogram.min_ = min;
    histogram.max_ = max;
    histogram.sum_ = sum;
    return histogram;
}

Duration Histogram::mean() const {
    if (count_ == 0) return {};
    return Duration(std::llround(sum_ / static_cast<double>(count_)));
}

Duration Histogram::percentile(double fraction) const {
    if (count_ == 0) return {};
    const auto rank = static_cast<std::uint64_t>(
        std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_)));
    std::uint64_t below = 0;
    for (std::size_t at = 0; at < counts_.size(); ++at) {
        below += counts_[at];
        if (below >= std::max<std::uint64_t>(rank, 1))
            return std::clamp(Duration(highest(at)), min_, max_);
    }
    return max_;
}

// Values below 128 have a bucket each. Above, the exponent chooses a row of 128 buckets and the
// seven bits after the leading one the bucket in it.
std::size_t Histogram::bucket(std::uint64_t value) {
    if (value < half) return value;
    const int shift = static_cast<int>(std::bit_width(value)) - precision - 1;
    return static_cast<std::size_t>(shift) * half + static_cast<std::size_t>(value >> shift);
}

std::uint64_t Histogram::highest(std::size_t bucket) {
    if (bucket < 2 * half) return bucket;
    const auto shift = bucket / half - 1;
    const std::uint64_t lead = bucket - shift * half;
    return ((lead + 1) << shift) - 1;
}

}  // namespace pulsegate::load
