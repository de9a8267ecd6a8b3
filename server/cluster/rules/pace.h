#pragma once

#include "server/base/clock.h"

namespace pulsegate {

/// How long things take in a cluster. All follow from two settings, so that tests may hurry.
struct Pace {
    Millis lease = 8000;  ///< a node that has not beaten for so long is condemned
    Millis beat = 1000;   ///< between two beats

    /// What an interval between two answers counts at most: in a longer one the judge may have
    /// been stopped itself.
    Millis longest_gap() const { return 2 * beat; }
    /// In place of the lease, if the node's process is known to be gone: three beats, which no two
    /// nodes measure to the millisecond.
    Millis short_lease() const { return 3 * beat - beat / 4; }
    /// Between the first node that may claim and the next.
    Millis claim_step() const { return 3 * beat; }
    /// Beats of another node that a node may have missed, and still not be condemned in the part
    /// that Redis has lost: of the lease, a failover loses three at most.
    std::uint64_t missed_beats() const { return static_cast<std::uint64_t>(lease / beat) - 3; }
};

}  // namespace pulsegate
