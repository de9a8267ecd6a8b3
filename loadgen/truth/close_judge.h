#pragma once

#include <cstdint>

#include "loadgen/stalls.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// How long a client had been silent when its close was seen.
struct SilenceAtClose {
    Duration since_before_send{};  ///< the longest possible silence, because the send took time
    Duration since_after_send{};
    Duration blind{};  ///< the close may have been this much before it was seen
};

enum class Expiry : std::uint8_t { in_time, early, late, unclear };

/// Judges closes of the server by its promises: a client that keeps sending is not closed, and a
/// silent one is closed between `limit` and one tick later. A limit of zero means that there is no
/// limit: the server may close the client, but need not (MQTT 5.0, section 3.1.2.10).
struct CloseJudge {
    Duration tick{};
    Duration tolerance{};  ///< for the kernel and a busy machine

    /// Judges the close of a silent client. The result is `unclear` if the generator had stalled,
    /// or if there is no limit.
    Expiry judge(const SilenceAtClose& close, Duration limit) const;

    /// The latest time at which a client with its last send at `after_send` may be closed.
    Time deadline(Time after_send, Duration limit) const {
        return limit > Duration::zero() ? after_send + limit + tick + tolerance : Time::max();
    }
};

/// Times when the generator kept a client from sending, so that the server may have been right to
/// close it.
class Oversleeping {
public:
    /// Call it for each send: the last one was at `before`, this one is at `sent`.
    void sent(Time before, Time sent, Duration limit) {
        const bool known = before != Time() && limit > Duration::zero();
        if (known && sent - before >= limit) until_ = sent;
    }

    /// A client that sends again after more than its limit may have been closed before the server
    /// received that. The close can take a tick of the server and the time until the generator
    /// reads it.
    bool explains_close(Time seen_until, Duration tick) const {
        return until_ != Time() && seen_until <= until_ + tick + stall_limit;
    }

private:
    Time until_{};
};

/// Was the server right to close a talking client, because nothing was sent in time?
inline bool was_starved(const SilenceAtClose& close, Duration limit) {
    return limit > Duration::zero() && close.since_before_send >= limit;
}

}  // namespace pulsegate::load
