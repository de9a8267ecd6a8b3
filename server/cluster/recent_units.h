#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "server/base/clock.h"
#include "server/cluster/row_change.h"

namespace pulsegate {

/// What Redis has taken in the last ten seconds: a failover may lose it, and then its owner writes
/// it again. At most 64 MB; then the oldest go, which is counted.
class RecentUnits {
public:
    static constexpr Millis kept_for = 10'000;

    explicit RecentUnits(std::size_t most_bytes = 64'000'000) : most_bytes_(most_bytes) {}

    void add(Millis now, std::vector<RowChange> changes);

    /// Redis has answered: what is older is safe.
    void keep(Millis now);

    /// A new run of Redis has all of it again, and may lose it again.
    void renew(Millis now);

    void clear();

    /// The last change of each row, by partition: rows that are set again end as they were.
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
