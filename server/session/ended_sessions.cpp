#include "server/session/ended_sessions.h"

namespace pulsegate {

void EndedSessions::add(const Session& session) {
    forget_committed();
    const End end{journal_.unit(), session.fingerprint()};
    ends_.push_back(end);
    latest_[end.client] = end.unit;
}

bool EndedSessions::contains(std::uint64_t client) {
    forget_committed();
    return !ends_.empty() && latest_.contains(client);
}

void EndedSessions::forget_committed() {
    for (; !ends_.empty() && journal_.is_committed(ends_.front().unit); ends_.pop_front()) {
        const auto found = latest_.find(ends_.front().client);
        if (found != latest_.end() && found->second == ends_.front().unit) latest_.erase(found);
    }
}

}  // namespace pulsegate
