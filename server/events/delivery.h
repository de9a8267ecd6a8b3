#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/base/clock.h"

namespace pulsegate {

/// What an HTTP status says of a batch of events.
enum class Verdict : std::uint8_t {
    delivered,
    refused,  ///< because of what is in it: it would be refused again
    later,    ///< because of anything else
};

inline Verdict verdict_on(unsigned status) {
    if (status >= 200 && status < 300) return Verdict::delivered;
    switch (status) {
        // These say that the URL or the token is wrong, or that it is too early. No event is worse
        // than another then.
        case 401:
        case 403:
        case 404:
        case 405:
        case 407:
        case 408:
        case 410:
        case 421:
        case 425:
        case 426:
        case 429: return Verdict::later;
        default: return status >= 400 && status < 500 ? Verdict::refused : Verdict::later;
    }
}

/// How many events the next request should have. When a batch is refused, the one to blame is
/// searched by halves; all before it are delivered on the way, in their order. It has no clock and
/// knows no events.
class BatchSize {
public:
    /// After so many events in a row that were refused, the backend itself is suspected: with a
    /// wrong secret, say, it refuses all of them. Then an event is to be blamed only after so many
    /// attempts.
    static constexpr unsigned most_in_a_row = 10;
    static constexpr unsigned attempts = 10;

    /// What to do after a refusal.
    enum class Step : std::uint8_t {
        halve,      ///< send fewer
        set_aside,  ///< leave out the first one: it was the one to blame
        wait,       ///< send the first one again, later
    };

    explicit BatchSize(std::size_t most) : most_(most) {}

    std::size_t next() const {
        return suspects_ == 0 ? most_ : std::max<std::size_t>(suspects_ / 2, 1);
    }

    /// The first `count` events are delivered.
    void delivered(std::size_t count) {
        suspects_ -= std::min(count, suspects_);
        in_a_row_ = attempts_ = 0;
    }

    /// A request with `count` events is refused.
    [[nodiscard]] Step refused(std::size_t count) {
        suspects_ = count;
        if (count > 1) return Step::halve;
        if (in_a_row_ == most_in_a_row && ++attempts_ < attempts) return Step::wait;
        in_a_row_ = std::min(in_a_row_ + 1, most_in_a_row);
        attempts_ = 0;
        suspects_ = in_a_row_ == most_in_a_row ? 1 : 0;
        return Step::set_aside;
    }

private:
    const std::size_t most_;
    std::size_t suspects_ = 0;  ///< among the next so many events there is one to blame
    unsigned in_a_row_ = 0;     ///< that were set aside
    unsigned attempts_ = 0;     ///< with the next event alone
};

/// How long to wait before the next attempt: twice as long after each failure, up to a minute, and
/// less by chance up to a half, so that gateways that failed together don't come back together.
class Backoff {
public:
    static constexpr Millis first = 500;
    static constexpr Millis longest = 60'000;

    /// What the backend asks for, if that is longer; it may ask for an hour. `chance` is a random
    /// number.
    Millis failed(std::optional<std::chrono::seconds> retry_after, std::uint32_t chance) {
        constexpr Millis longest_asked = 3'600'000;
        const Millis half = next_ / 2;
        const Millis pause = half + static_cast<Millis>(chance) % (half + 1);
        next_ = std::min(2 * next_, longest);
        if (!retry_after) return pause;
        return std::max(pause, std::min<Millis>(retry_after->count() * 1000, longest_asked));
    }

    void succeeded() { next_ = first; }

private:
    Millis next_ = first;
};

}  // namespace pulsegate
