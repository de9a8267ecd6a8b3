#pragma once

#include <algorithm>
#include <cstdint>

#include "loadgen/time.h"

namespace pulsegate::load {

/// How long a client waits that has been turned away `times` times, as phones do: a second, twice
/// as long each time, up to eight. `dice`, from 0 to 1, makes it up to a half shorter or longer, so
/// that those who were turned away together don't come again together.
inline Duration backoff(std::uint32_t times, double dice) {
    constexpr std::uint32_t most_doublings = 3;
    const auto doublings = std::min(std::max(times, 1u) - 1, most_doublings);
    return from_seconds((1u << doublings) * (0.5 + dice));
}

}  // namespace pulsegate::load
