#pragma once

#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/link/node_link.h"
#include "server/cluster/rules/pace.h"

namespace pulsegate {

/// How long this node may serve its partitions. An answered heartbeat gives it a lease. When Redis
/// is away, the lease continues as long as each other node says over its link that it has no Redis
/// either, or its process is gone and no later one listens there. A node with an address that was
/// not known at the last heartbeat cannot be asked, but it asks this node. So no node can have
/// claimed anything.
///
/// A stopped process must not mistake its own silence for the silence of Redis, and does not know
/// whether a node has joined meanwhile. So a lease continues only if Redis was known to be away
/// before the lease ended, and if this is asked soon after that end. The time while the machine is
/// suspended counts, too. Any thread may use it.
class ServingLease {
public:
    struct Other {
        std::string incarnation;
        std::string address;
    };

    /// `link` must outlive it, and must watch the other nodes while Redis is away.
    ServingLease(const NodeLink& link, Pace pace) : link_(link), pace_(pace) {}

    /// A heartbeat that was sent at `sent` was answered; `others` are the other living nodes.
    void renew(Millis sent, std::vector<Other> others);

    /// Redis has just failed to answer.
    void note_away();

    /// Ends the lease permanently.
    void end() { is_ended_ = true; }

    bool holds() const;

private:
    /// Nothing if the other node has not answered within the last `most` milliseconds.
    std::optional<bool> has_redis(const Other& other, Millis most) const;

    const NodeLink& link_;
    const Pace pace_;
    std::atomic<bool> is_ended_{false};
    mutable std::atomic<Millis> ends_at_{never};  ///< by `boot_now`
    std::atomic<Millis> away_since_{never};
    mutable std::mutex mutex_;
    std::vector<Other> others_;  ///< guarded by the mutex

    static constexpr Millis never = std::numeric_limits<Millis>::min();
};

}  // namespace pulsegate
