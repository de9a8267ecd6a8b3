#include "server/session/durable/ended_sessions.h"

#include "server/base/hash.h"

namespace pulsegate {

void EndedSessions::add(std::uint64_t client) {
    forget_committed();
    const End end{journal_.unit(), client};
    ends_.push_back(end);
    latest_[end.client] = end.unit;
}

/// Usually no end is pending. Then a login need not compute a fingerprint.
bool EndedSessions::contains(std::string_view user, std::string_view client) {
    forget_committed();
    return !ends_.empty() && latest_.contains(fingerprint(user, client));
}

void EndedSessions::forget_committed() {
    for (; !ends_.empty() && journal_.is_committed(ends_.front().unit); ends_.pop_front()) {
        const auto found = latest_.find(ends_.front().client);
        if (found != latest_.end() && found->second == ends_.front().unit) latest_.erase(found);
    }
}

}  // namespace pulsegate
