#pragma once

#include <optional>

#include "loadgen/time.h"

namespace pulsegate::load {

/// The difference between another machine's clock and ours. Of several exchanges, the shortest one
/// is the most precise.
class ClockOffset {
public:
    /// Their clock said `theirs` at some time between `asked` and `answered` of ours.
    void add(Time asked, Time theirs, Time answered) {
        const Duration took = answered - asked;
        if (took_ && took >= *took_) return;
        took_ = took;
        offset_ = asked + took / 2 - theirs;
    }

    /// Added to their times, it gives ours.
    Duration offset() const { return offset_; }
    /// The maximum error of the offset.
    Duration error() const { return took_ ? *took_ / 2 : Duration::max(); }

private:
    std::optional<Duration> took_;
    Duration offset_{};
};

}  // namespace pulsegate::load
