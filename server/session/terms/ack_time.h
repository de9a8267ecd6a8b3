#pragma once

#include <algorithm>
#include <cstdint>

#include "server/base/clock.h"

namespace pulsegate {

/// How long a client takes to acknowledge a message: a running mean, in one byte. It decides how
/// long to wait for an acknowledgement that would save a write to the disk: longer than the client
/// usually takes, but not at all if the client takes too long anyway.
class AckTime {
public:
    /// The maximum patience, also used for unknown clients.
    static constexpr Millis most_patience = 100;

    /// 0: messages to the client must be stored at once.
    Millis patience() const {
        if (mean_ == unknown) return most_patience;
        return mean_ > most_patience ? 0 : std::min(2 * mean_ + slack, most_patience);
    }

    void add(Millis time) {
        const int sample = static_cast<int>(std::clamp<Millis>(time, 0, longest));
        // The mean moves by an eighth of the difference, and at least by 1, so that it reaches the
        // sample.
        const int difference = sample - mean_;
        const int rounding = difference > 0 ? 7 : -7;
        const int mean = mean_ == unknown ? sample : mean_ + (difference + rounding) / 8;
        mean_ = static_cast<std::uint8_t>(mean);
    }

    /// The acknowledgement has not come in time. If it comes later, its real time is added.
    void add_late() { add(most_patience + 1); }

    /// As one byte, for another process.
    std::uint8_t byte() const { return mean_; }
    static AckTime of(std::uint8_t byte) {
        AckTime time;
        time.mean_ = byte;
        return time;
    }

private:
    /// Other work may delay either side by this long.
    static constexpr Millis slack = 20;
    static constexpr std::uint8_t unknown = 255;
    static constexpr Millis longest = 254;

    std::uint8_t mean_ = unknown;  ///< ms
};

}  // namespace pulsegate
