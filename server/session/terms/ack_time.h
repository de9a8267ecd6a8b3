#pragma once

#include <algorithm>
#include <cstdint>

#include "server/base/clock.h"

namespace pulsegate {

/// How long a client takes to acknowledge a message: a running mean, in one byte. It says for how
/// long an acknowledgement is waited for that would spare the disk the message: longer than a
/// client usually takes, and not at all for one that takes too long anyway.
class AckTime {
public:
    /// At the most, and for clients that nothing is known of.
    static constexpr Millis most_patience = 100;

    /// 0: what is sent to the client is to be stored at once.
    Millis patience() const {
        if (mean_ == unknown) return most_patience;
        return mean_ > most_patience ? 0 : std::min(2 * mean_ + slack, most_patience);
    }

    void add(Millis time) {
        const int sample = static_cast<int>(std::clamp<Millis>(time, 0, longest));
        // By an eighth of the difference, and at least by 1, or it would never arrive.
        const int difference = sample - mean_;
        const int rounding = difference > 0 ? 7 : -7;
        const int mean = mean_ == unknown ? sample : mean_ + (difference + rounding) / 8;
        mean_ = static_cast<std::uint8_t>(mean);
    }

    /// It has not come in time; if it comes, it tells how late.
    void add_late() { add(most_patience + 1); }

    /// As one byte, for another process.
    std::uint8_t byte() const { return mean_; }
    static AckTime of(std::uint8_t byte) {
        AckTime time;
        time.mean_ = byte;
        return time;
    }

private:
    /// Either side may be held up for so long by something else.
    static constexpr Millis slack = 20;
    static constexpr std::uint8_t unknown = 255;
    static constexpr Millis longest = 254;

    std::uint8_t mean_ = unknown;  ///< ms
};

}  // namespace pulsegate
