#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "server/base/clock.h"
#include "server/cluster/row_change.h"

namespace pulsegate {

/// The changes that Redis has accepted in the last ten seconds, or since it last met the terms of
/// its owner. A failover may lose them, and then their owner writes them again. It keeps at most 64
/// MB; beyond that, it drops and counts the oldest changes.
class RecentUnits {
public:
    static constexpr Millis kept_for = 10'000;

    explicit RecentUnits(std::size_t most_bytes = 64'000'000) : most_bytes_(most_bytes) {}

    void add(Millis now, std::vector<RowChange> changes);

    /// Redis has answered, so older changes are safe.
    void keep(Millis now);

    /// A new run of Redis has all changes again, and may lose them again.
    void renew(Millis now);

    void clear();

    /// The last change of each row, by partition. If rows are set again, they end with the right
    /// values.
    std::map<Partition, std::vector<const RowChange*>> tail() const;

    std::size_t bytes() const { return bytes_; }
    std::uint64_t dropped_bytes() const { return dropped_bytes_; }

private:
    struct Unit {
        Millis when;
        std::size_t bytes;
        std::vector<RowChange> changes;
    };

    void drop_oldest();

    const std::size_t most_bytes_;
    std::deque<Unit> units_;
    std::size_t bytes_ = 0;
    std::uint64_t dropped_bytes_ = 0;
};

}  // namespace pulsegate
