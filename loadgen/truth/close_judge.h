#pragma once

#include <cstdint>

#include "loadgen/time.h"

namespace pulsegate::load {

/// A delay of the event loop beyond this is a stall: times that were measured across it are
/// unclear.
constexpr Duration stall_limit = std::chrono::milliseconds(100);

/// How long a client had been silent when its close was seen.
struct SilenceAtClose {
    Duration since_before_send{};  ///< the longest possible, as the send took time
    Duration since_after_send{};
    Duration blind{};  ///< the close may have been this much before it was seen
};

enum class Expiry : std::uint8_t { in_time, early, late, unclear };

/// Judges closes of the server by what it promises: a client that keeps talking is not
/// closed, and a silent one is closed between `limit` and one tick later. A limit of zero means
/// that none was agreed: the server need not close the client, and may (MQTT 5.0,
/// section 3.1.2.10).
struct CloseJudge {
    Duration tick{};
    Duration tolerance{};  ///< for the kernel and a busy machine

    /// Of a client that was silent. `unclear` if the generator had stalled, or without a limit.
    Expiry judge(const SilenceAtClose& close, Duration limit) const;

    /// The latest moment at which a client may be closed that sent last at `after_send`.
    Time deadline(Time after_send, Duration limit) const {
        return limit > Duration::zero() ? after_send + limit + tick + tolerance : Time::max();
    }
};

/// When a client was kept from sending by the generator, so that the server may have been right to
/// close it.
class Oversleeping {
public:
    /// To be told of each send: `before` the last one, now `sent`.
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
