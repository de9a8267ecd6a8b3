#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/base/clock.h"

namespace pulsegate {

/// Counts times in milliseconds by upper bound, as in Prometheus' histograms. Not synchronized: its
/// owner decides which thread uses it.
template <Millis... Bounds>
struct Histogram {
    static constexpr std::array<Millis, sizeof...(Bounds)> bounds{Bounds...};

    void count(Millis time) {
        std::size_t bucket = 0;
        while (bucket < bounds.size() && time > bounds[bucket]) ++bucket;
        ++counts[bucket];
        sum += time;
    }

    std::array<std::uint64_t, sizeof...(Bounds) + 1>
        counts{};  ///< the last element: above all bounds
    Millis sum = 0;
};

}  // namespace pulsegate
