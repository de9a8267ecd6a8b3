#include "loadgen/truth/close_judge.h"

namespace pulsegate::load {

// The close happened in [seen - blind, seen]. The silence began between `before` and `after` the
// send, or a little later, when the packet reached the server. So seen - before is the longest
// silence possible: if even that is below the limit, the close was early, without any tolerance.
// Likewise seen - blind - after is the shortest: if even that is past the bound, the close was
// late.
Expiry CloseJudge::judge(const SilenceAtClose& close, Duration limit) const {
    if (limit == Duration::zero()) return Expiry::unclear;
    const Duration bound = limit + tick + tolerance;
    if (close.since_before_send < limit) return Expiry::early;
    if (close.since_after_send - close.blind > bound) return Expiry::late;

    // If the event loop keeps up, the time when the close was seen counts as the time of the close.
    if (close.blind <= stall_limit)
        return close.since_after_send > bound ? Expiry::late : Expiry::in_time;

    const bool surely_not_early = close.since_after_send - close.blind >= limit;
    const bool surely_not_late = close.since_before_send <= bound;
    return surely_not_early && surely_not_late ? Expiry::in_time : Expiry::unclear;
}

}  // namespace pulsegate::load
