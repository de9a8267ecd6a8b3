#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/base/clock.h"

namespace pulsegate {

/// The meaning of an HTTP status for a batch of events.
enum class Verdict : std::uint8_t {
    delivered,
    refused,  ///< because of its content: it would be refused again
    later,    ///< for any other reason
};

inline Verdict verdict_on(unsigned status) {
    if (status >= 200 && status < 300) return Verdict::delivered;
    switch (status) {
        // These mean that the URL or the token is wrong, or that it is too early. Then no single
        // event is to blame.
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

/// Decides how many events the next request has. After a refusal it halves the batch until it finds
/// the event to blame; the events before that are delivered on the way, in order. It has no clock
/// and knows no events.
class BatchSize {
public:
    /// After this many refused events in a row, the backend itself is suspected, because with a
    /// wrong secret, for example, it refuses every event. From then on an event is set aside only
    /// after this many attempts.
    static constexpr unsigned most_in_a_row = 10;
    static constexpr unsigned attempts = 10;

    /// The step after a refusal.
    enum class Step : std::uint8_t {
        halve,      ///< send fewer
        set_aside,  ///< leave out the first event, which was to blame
        wait,       ///< send the first event again, later
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
    std::size_t suspects_ = 0;  ///< number of next events with one to blame among them
    unsigned in_a_row_ = 0;     ///< events set aside
    unsigned attempts_ = 0;     ///< with the next event alone
};

/// The pause before the next attempt. It doubles after each failure, up to a minute, and is
/// shortened by a random part of up to a half, so gateways that failed together don't return
/// together.
class Backoff {
public:
    static constexpr Millis first = 500;
    static constexpr Millis longest = 60'000;

    /// The pause, or the backend's own request, at most an hour, if that is longer. `chance` is a
    /// random number.
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
