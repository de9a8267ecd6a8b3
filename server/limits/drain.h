#pragma once

#include <atomic>
#include <cstdint>

#include "server/base/clock.h"

namespace pulsegate {

/// The terms on which the gateway asks its clients to leave before it stops.
struct DrainTerms {
    Millis notice = 0;  ///< how long it is only not ready, before clients are asked
    Millis over = 0;    ///< the time over which clients leave, spread evenly

    bool is_wanted() const { return notice > 0 || over > 0; }
};

/// The progress of a drain, and its terms by the settings. The main thread sets them; any thread
/// may read them.
class DrainState {
public:
    enum class Phase : std::uint8_t {
        none,     ///< the gateway serves
        notice,   ///< it is not ready, so load balancers send new clients elsewhere
        leaving,  ///< logins are refused, and clients are asked to leave
        stopping,
    };

    void enter(Phase phase, WallMillis until) {
        until_.store(until, std::memory_order_relaxed);
        phase_.store(phase, std::memory_order_release);
    }
    Phase phase() const { return phase_.load(std::memory_order_acquire); }
    /// The end of the phase, or 0.
    WallMillis until() const { return until_.load(std::memory_order_relaxed); }

    void use(const DrainTerms& usual) {
        notice_.store(usual.notice, std::memory_order_relaxed);
        over_.store(usual.over, std::memory_order_relaxed);
    }
    /// The default terms, if a request names no others.
    DrainTerms usual() const {
        return {.notice = notice_.load(std::memory_order_relaxed),
                .over = over_.load(std::memory_order_relaxed)};
    }

private:
    std::atomic<Millis> notice_{0};
    std::atomic<Millis> over_{0};
    std::atomic<Phase> phase_{Phase::none};
    std::atomic<WallMillis> until_{0};
};

}  // namespace pulsegate
