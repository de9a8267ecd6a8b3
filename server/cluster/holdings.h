#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/cluster/cluster_calls.h"
#include "server/cluster/recent_units.h"
#include "server/cluster/row_store.h"
#include "server/redis/redis_connection.h"

namespace pulsegate {

/// The partitions that this node owns, by their tokens, and its writing there. A token counts on
/// the connection on which it was confirmed. All calls throw RedisError.
class Holdings {
public:
    using Deadline = RedisConnection::Clock::time_point;

    explicit Holdings(unsigned replicas) : replicas_(replicas) {}

    bool is_owner() const { return !epochs_.empty(); }
    /// By partition; empty: it owns none.
    const std::vector<std::uint64_t>& epochs() const { return epochs_; }
    /// What a token says behind the epoch.
    std::string owner() const;

    /// A new life begins, which owns nothing.
    void begin(std::string incarnation);
    void take(std::vector<std::uint64_t> epochs) { epochs_ = std::move(epochs); }

    /// A connection is there on which no token counts yet.
    void begin_connection() { ++connection_; }
    /// Shows all tokens; on a new run of Redis, with what it may have lost.
    RowStore::Result confirm(RedisConnection& redis, Deadline deadline, bool is_new_run);

    RowStore::Result write(RedisConnection& redis, Deadline deadline,
                           const std::vector<RowChange>& changes, bool may_overfill);

    RecentUnits& recent() { return recent_; }
    std::uint64_t units() const { return units_; }
    std::uint64_t bytes() const { return bytes_; }

private:
    RowStore::Result write_part(RedisConnection& redis, Deadline deadline,
                                std::span<const RowChange> changes, bool may_overfill);
    std::string token(Partition partition) const;

    const unsigned replicas_;
    std::string incarnation_;
    std::vector<std::uint64_t> epochs_;
    std::uint64_t connection_ = 0;  ///< its number
    RecentUnits recent_;
    std::uint64_t units_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace pulsegate
