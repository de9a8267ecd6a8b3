#pragma once

#include <optional>

#include "loadgen/time.h"

namespace pulsegate::load {

/// How far the clock of another machine is from ours: of several exchanges, the one that took the
/// shortest time says it best.
class ClockOffset {
public:
    /// Their clock said `theirs` at some time between `asked` and `answered` of ours.
    void add(Time asked, Time theirs, Time answered) {
        const Duration took = answered - asked;
        if (took_ && took >= *took_) return;
        took_ = took;
        offset_ = asked + took / 2 - theirs;
    }

    /// To be added to their times to get ours.
    Duration offset() const { return offset_; }
    /// The offset is wrong by this at most.
    Duration error() const { return took_ ? *took_ / 2 : Duration::max(); }

private:
    std::optional<Duration> took_;
    Duration offset_{};
};

}  // namespace pulsegate::load
