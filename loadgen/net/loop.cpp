#include "loadgen/net/loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "loadgen/prefetch.h"

namespace pulsegate::load {

namespace {

constexpr std::uint32_t everything = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

epoll_event event_for(void* who) {
    epoll_event event{};
    event.events = everything;
    event.data.ptr = who;
    return event;
}

Descriptor opened(int descriptor, const char* what) {
    if (descriptor < 0) throw std::system_error(errno, std::generic_category(), what);
    return Descriptor(descriptor);
}

timespec timespec_of(Time time) {
    const auto since = time.time_since_epoch();
    const auto whole = std::chrono::floor<std::chrono::seconds>(since);
    timespec result{};
    result.tv_sec = whole.count();
    result.tv_nsec = std::chrono::nanoseconds(since - whole).count();
    return result;
}

}  // namespace

Loop::Loop()
    : epoll_(opened(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_up_(opened(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")),
      timer_(opened(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create")),
      scratch_(std::make_unique<std::uint8_t[]>(scratch_size)) {
    watch_own(wake_up_, this);
    watch_own(timer_, nullptr);
}

void Loop::watch_own(const Descriptor& descriptor, void* tag) {
    epoll_event event = event_for(tag);
    event.events = EPOLLIN | EPOLLET;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor.get(), &event) < 0)
        throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

void Loop::run(Owner& owner) {
    seen_until_ = waited_since_ = next_turn_ = Clock::now();
    for (stopped_ = false; !stopped_;) {
        take_turn(owner);
        wait();
        dispatch();
    }
}

void Loop::run_once(Time when) {
    next_turn_ = when;
    wait();
    dispatch();
}

void Loop::stop() { eventfd_write(wake_up_.get(), 1); }

void Loop::take_turn(Owner& owner) {
    const Time now = Clock::now();
    if (now < next_turn_) return;
    const Duration late = now - next_turn_;
    next_turn_ = Time::max();
    wake_at(owner.turn(now, late));
}

void Loop::wake_at(Time when) { next_turn_ = std::min(next_turn_, when); }

void Loop::wait() {
    keep_pace();
    const Time now = Clock::now();
    // The last batch had everything that happened before the wait for it began, unless it was full.
    if (batch_ < batch_size) seen_until_ = waited_since_;
    waited_since_ = now;

    const bool at_once = !soon_.empty() || next_turn_ <= now;
    if (!at_once) set_timer();
    const auto size = static_cast<int>(events_.size());
    const int count = epoll_wait(epoll_.get(), events_.data(), size, at_once ? 0 : -1);
    batch_ = count < 0 ? 0 : static_cast<std::size_t>(count);
}

void Loop::keep_pace() {
    if (pace_ == Duration::zero() || Clock::now() >= waited_since_ + pace_) return;
    const timespec end = timespec_of(waited_since_ + pace_);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr);
}

// A timer that stays set costs less than a timeout for each wait, because most waits end with a
// packet.
void Loop::set_timer() {
    if (timer_set_to_ == next_turn_) return;
    timer_set_to_ = next_turn_;
    itimerspec when{};  // zero: never
    if (next_turn_ != Time::max()) when.it_value = timespec_of(next_turn_);
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Loop::dispatch() {
    for (at_ = 0; at_ < batch_; ++at_) {
        fetch_ahead();
        const epoll_event& event = events_[at_];
        if (event.data.ptr == this) {
            eventfd_t count = 0;
            eventfd_read(wake_up_.get(), &count);
            stopped_ = true;
        } else if (event.data.ptr) {
            static_cast<Handler*>(event.data.ptr)->ready(event.events);
        }
    }
    call_those_waiting();
}

// With many thousands of handlers, none is in the caches. Loads a later one while the kernel reads
// for this one.
void Loop::fetch_ahead() const {
    constexpr std::size_t ahead = 2;
    constexpr std::size_t bytes = 320;  // as much as a client needs for most packets
    if (at_ + ahead >= batch_) return;
    if (const auto* handler = events_[at_ + ahead].data.ptr) prefetch(handler, bytes);
}

// Handlers that begin to wait meanwhile are called the next time.
void Loop::call_those_waiting() {
    if (soon_.empty()) return;
    called_.swap(soon_);
    for (std::size_t i = 0; i < called_.size(); ++i)
        if (called_[i]) called_[i]->ready(0);
    called_.clear();
}

bool Loop::watch(int descriptor, Handler& handler) {
    epoll_event event = event_for(&handler);
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void Loop::hand_over(int descriptor, Handler& from, Handler& to) {
    forget(from);
    announce_again(descriptor, to);
}

void Loop::announce_again(int descriptor, Handler& handler) {
    epoll_event event = event_for(&handler);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void Loop::forget(Handler& handler) {
    for (std::size_t i = at_ + 1; i < batch_; ++i)
        if (events_[i].data.ptr == &handler) events_[i].data.ptr = nullptr;
    std::ranges::replace(soon_, &handler, nullptr);
    std::ranges::replace(called_, &handler, nullptr);
}

}  // namespace pulsegate::load
