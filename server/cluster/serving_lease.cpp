#include "server/cluster/serving_lease.h"

#include <algorithm>
#include <optional>

namespace pulsegate {

namespace {

/// Event loops ask at least once a second. A loop that has not asked for longer was stopped.
constexpr Millis longest_pause = 3000;

}  // namespace

void ServingLease::renew(Millis sent, std::vector<Other> others) {
    const std::lock_guard lock(mutex_);
    others_ = std::move(others);
    ends_at_ = sent + pace_.lease;
    away_since_ = never;
}

void ServingLease::note_away() {
    Millis unknown = never;
    away_since_.compare_exchange_strong(unknown, boot_now());
}

bool ServingLease::holds() const {
    if (is_ended_) return false;
    const Millis now = boot_now();
    if (now < ends_at_) return true;
    const std::lock_guard lock(mutex_);
    const Millis ends_at = ends_at_;
    if (now < ends_at) return true;
    if (ends_at == never) return false;  // there was no heartbeat
    if (away_since_ == never || away_since_ >= ends_at) return false;
    if (now - ends_at > longest_pause) return false;
    const Millis most = 2 * pace_.beat;
    const auto says = [&](bool has) {
        return [this, most, has](const Other& other) { return has_redis(other, most) == has; };
    };
    // A node that has joined since the last heartbeat must ask this one before it can condemn it.
    // After it has claimed the data, it has no other node to condemn, and no longer says that it
    // has Redis. So after such a question only a heartbeat begins another lease.
    if (link_.was_asked_with_redis(3 * pace_.beat) || std::ranges::any_of(others_, says(true))) {
        ends_at_ = now - longest_pause - 1;
        return false;
    }
    if (!std::ranges::all_of(others_, says(false))) return false;
    // Extends the lease by one heartbeat only, so that the nodes are asked again. An answer does
    // not say how long it is valid.
    ends_at_ = now + pace_.beat;
    return true;
}

/// Does the other node have Redis? If a later incarnation answers, the earlier one is gone, but the
/// later one may claim.
std::optional<bool> ServingLease::has_redis(const Other& other, Millis most) const {
    const std::optional<LinkReport> report = link_.report(other.address, most);
    if (!report || report->state == LinkReport::State::unreachable) return std::nullopt;
    return report->state == LinkReport::State::answered && report->hello.has_redis;
}

}  // namespace pulsegate
