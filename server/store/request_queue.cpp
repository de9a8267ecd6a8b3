#include "server/store/request_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pulsegate {

namespace {

constexpr std::chrono::seconds lazy_wait{1};

}  // namespace

void RequestQueue::add(Request request) {
    bool wakes = false;
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(request));
        wakes = !std::exchange(urgent_, true);
    }
    if (wakes) wake_.notify_one();
}

void RequestQueue::add_lazily(Request request) {
    bool first = false;
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(request));
        first = !lazy_due_;
        if (first) lazy_due_ = Clock::now() + lazy_wait;
    }
    if (first) wake_.notify_one();  // to wait until `lazy_due_`
}

void RequestQueue::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    wake_.notify_one();
}

bool RequestQueue::wait(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    while (!urgent_ && !stopped_) {
        const auto now = Clock::now();
        if (lazy_due_ && now >= *lazy_due_) return true;
        if (now >= until) return false;
        wake_.wait_until(lock, lazy_due_ ? std::min(until, *lazy_due_) : until);
    }
    return true;
}

bool RequestQueue::sleep(Clock::duration time) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, time, [this] { return stopped_; });
}

void RequestQueue::take(std::deque<Request>& out) {
    std::vector<Request> taken;
    {
        const std::lock_guard lock(mutex_);
        taken.swap(waiting_);
        urgent_ = false;
        lazy_due_.reset();
    }
    std::move(taken.begin(), taken.end(), std::back_inserter(out));
}

bool RequestQueue::stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
}

}  // namespace pulsegate
