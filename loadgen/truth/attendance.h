#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "loadgen/time.h"

namespace pulsegate::load {

/// When a client was connected to receive messages. Its stays are numbered from 1; absence n is
/// before stay n+1. It remembers only the causes of absences.
class Attendance {
public:
    enum class Cause : std::uint8_t {
        planned,  ///< by the scenario
        closed,   ///< the server closed it wrongly
        starved,  ///< the generator was too late to keep it alive
    };

    void comes() {
        if (there_) return;
        there_ = true;
        ++stays_;
    }
    /// The client is connected, and its subscriptions are granted. `now` is of the run's common
    /// clock.
    void settles(Time now) {
        settled_ = now;
        first_settled_ = std::min(first_settled_, now);
    }
    void goes(Cause cause) {
        if (!there_) return;
        there_ = false;
        settled_ = Time::max();
        if (cause != Cause::planned) blamed_.emplace_back(stays_, cause);
    }

    /// From now on, messages are sent to it.
    void begin() { at_begin_ = stays_; }

    bool there() const { return there_; }
    std::uint32_t stay() const { return stays_; }  ///< this one or the last
    std::uint32_t stay_at_begin() const { return at_begin_; }

    /// When the client settled in this stay, and when it settled for the first time; `max()`: it
    /// has not.
    Time settled() const { return settled_; }
    Time first_settled() const { return first_settled_; }

    /// The worst cause of the absences between two stays. A fault of the generator excuses all.
    Cause cause_between(std::uint32_t from, std::uint32_t to) const {
        Cause worst = Cause::planned;
        for (const auto& [absence, cause] : blamed_)
            if (absence >= from && absence < to && cause > worst) worst = cause;
        return worst;
    }

private:
    std::uint32_t stays_ = 0;
    std::uint32_t at_begin_ = 0;
    bool there_ = false;
    Time settled_ = Time::max();
    Time first_settled_ = Time::max();
    std::vector<std::pair<std::uint32_t, Cause>> blamed_;  ///< few: each is a fault
};

static_assert(sizeof(Attendance) <= 56);

}  // namespace pulsegate::load
