#pragma once

#include <algorithm>
#include <cstdint>

#include "loadgen/time.h"

namespace pulsegate::load {

/// How long a client waits after `times` failed attempts, as phones do: 1 s, then twice as long
/// each time, up to 8 s. `dice`, from 0 to 1, makes it up to a half shorter or longer, so that
/// clients that were refused together do not retry together.
inline Duration backoff(std::uint32_t times, double dice) {
    constexpr std::uint32_t most_doublings = 3;
    const auto doublings = std::min(std::max(times, 1u) - 1, most_doublings);
    return from_seconds((1u << doublings) * (0.5 + dice));
}

}  // namespace pulsegate::load
