#include "server/session/trace/trace.h"

namespace pulsegate {

/// What comes behind a lost event is lost as well until the reader has taken the others: so it
/// knows where the gap is.
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
