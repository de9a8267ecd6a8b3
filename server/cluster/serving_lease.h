#pragma once

#include <atomic>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/link/node_link.h"
#include "server/cluster/rules/pace.h"

namespace pulsegate {

/// How long this node may serve what it owns. An answered beat gives it a lease. When Redis is
/// away, it goes on as long as each other node says over its link that it has no Redis either, or
/// its process is gone: then nobody can have claimed anything.
///
/// A process that was stopped must not take its own silence for that of Redis, nor does it know
/// whether a node has joined meanwhile. So a lease goes on only if Redis was known to be away
/// before the lease ended, and if this is asked soon after that end. It counts the time in which
/// the machine sleeps, too. Any thread.
class ServingLease {
public:
    struct Other {
        std::string incarnation;
        std::string address;
    };

    /// `link` must outlive it, and watch the others while Redis is away.
    ServingLease(const NodeLink& link, Pace pace) : link_(link), pace_(pace) {}

    /// A beat that was sent then was answered, and these are the other nodes that live.
    void renew(Millis sent, std::vector<Other> others);

    /// Redis has just failed to answer.
    void note_away();

    /// For good.
    void end() { is_ended_ = true; }

    bool holds() const;

private:
    bool lacks_redis(const Other& other, Millis most) const;

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
