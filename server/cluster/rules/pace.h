#pragma once

#include "server/base/clock.h"

namespace pulsegate {

/// The times of a cluster. All follow from two settings, so that tests can be faster.
struct Pace {
    Millis lease = 8000;  ///< a node without a heartbeat for this long is condemned
    Millis beat = 1000;   ///< time between two heartbeats

    /// An interval between two answers counts at most this long: in a longer interval, the judge
    /// itself may have been stopped.
    Millis longest_gap() const { return 2 * beat; }
    /// The lease of a node when its process is known to be gone. It is about three heartbeats,
    /// because nodes do not measure to the millisecond.
    Millis short_lease() const { return 3 * beat - beat / 4; }
    /// A node waits this long for each node that may claim before it.
    Millis claim_step() const { return 3 * beat; }
    /// How many heartbeats of another node a node may have missed without being condemned in the
    /// part that Redis has lost: a failover loses at most three heartbeats of the lease.
    std::uint64_t missed_beats() const { return static_cast<std::uint64_t>(lease / beat) - 3; }
};

}  // namespace pulsegate
