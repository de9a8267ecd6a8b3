#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/cluster/cluster_calls.h"
#include "server/cluster/cluster_view.h"
#include "server/cluster/recent_units.h"
#include "server/cluster/row_store.h"
#include "server/redis/redis_connection.h"

namespace pulsegate {

/// The partitions that this node owns, with their tokens, and the node's writes there. A token is
/// valid only on the connection on which it was confirmed. All calls throw RedisError.
class Holdings {
public:
    using Deadline = RedisConnection::Clock::time_point;

    explicit Holdings(unsigned replicas) : replicas_(replicas) {}

    bool is_owner() const { return !epochs_.empty(); }
    /// The epochs by partition; empty: it owns none.
    const std::vector<std::uint64_t>& epochs() const { return epochs_; }
    /// The same for the HTTP API and metrics.
    std::vector<ClusterView::Owned> view() const;
    /// The part of a token after the epoch.
    std::string owner() const;

    /// Begins a new incarnation, which owns nothing.
    void begin(std::string incarnation);
    void take(std::vector<std::uint64_t> epochs) { epochs_ = std::move(epochs); }

    /// Call it for a new connection: no token is valid on it yet.
    void begin_connection() { ++connection_; }
    /// Confirms all tokens. On a new run of Redis, it also writes the changes again that Redis may
    /// have lost.
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
