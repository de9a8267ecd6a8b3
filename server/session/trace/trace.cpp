#include "server/session/trace/trace.h"

namespace pulsegate {

/// After a lost event, all further events are lost too, until the reader has taken the earlier
/// ones. So the reader knows the place of the gap.
void Trace::put(std::string event) {
    {
        const std::lock_guard lock(mutex_);
        const bool is_full = events_.size() >= most_events || bytes_ + event.size() > most_bytes;
        if (lost_ > 0 || is_full) {
            ++lost_;
            return;
        }
        bytes_ += event.size();
        events_.push_back(std::move(event));
    }
    wake_();
}

Trace::Taken Trace::take() {
    const std::lock_guard lock(mutex_);
    bytes_ = 0;
    return {.events = std::exchange(events_, {}), .lost = std::exchange(lost_, 0)};
}

}  // namespace pulsegate
