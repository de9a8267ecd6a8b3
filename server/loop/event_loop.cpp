#include "server/loop/event_loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <tuple>
#include <utility>

namespace pulsegate {

namespace {

/// Of what nobody could tell us: descriptors have run out.
[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

EventLoop::EventLoop()
    : wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      woken_([] {}),  // its mail is run in every round
      clock_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      rung_([this] { run_due(); }) {
    if (!wake_up_ || !poller_.add(wake_up_.get(), woken_)) fail("eventfd");
    if (!clock_ || !poller_.add(clock_.get(), rung_)) fail("timerfd");
}

EventLoop::~EventLoop() = default;

void EventLoop::run() {
    while (!stopped_) run_round(-1);
}

void EventLoop::run_round(int timeout) {
    thread_.assert_here();
    ++round_;
    poller_.wait(fall_asleep() ? timeout : 0);
    round_began_ = monotonic_now();
    run_mail();
    poller_.tell();
    run_posted();
}

/// False if there is something to run. Else whoever posts from now on must wake the loop.
bool EventLoop::fall_asleep() {
    const std::lock_guard lock(mutex_);
    asleep_ = posted_.empty() && mail_.empty();
    return asleep_;
}

void EventLoop::post_from_any_thread(Task task) {
    bool wakes = false;
    {
        const std::lock_guard lock(mutex_);
        mail_.push_back(std::move(task));
        wakes = std::exchange(asleep_, false);
    }
    constexpr std::uint64_t once = 1;
    if (wakes) std::ignore = ::write(wake_up_.get(), &once, sizeof once);
}

void EventLoop::run_mail() {
    {
        const std::lock_guard lock(mutex_);
        asleep_ = false;
        running_.swap(mail_);
    }
    run_running();
}

void EventLoop::run_posted() {
    running_.swap(posted_);
    run_running();
}

void EventLoop::run_running() {
    for (Task& task : running_) task();
    running_.clear();
}

void EventLoop::run_due() {
    alarm_ = Time::max();
    const auto now = std::chrono::steady_clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
        Timer& timer = *timers_.begin()->second;
        const Task then = std::move(timer.then_);
        timer.stop();
        then();
    }
    set_alarm();
}

/// One that rings too early costs little: only an earlier time sets the clock.
void EventLoop::set_alarm() {
    if (timers_.empty() || timers_.begin()->first >= alarm_) return;
    alarm_ = timers_.begin()->first;
    const auto time = alarm_.time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    itimerspec when{};
    when.it_value.tv_sec = seconds.count();
    when.it_value.tv_nsec = std::chrono::nanoseconds(time - seconds).count();
    ::timerfd_settime(clock_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Timer::start(std::chrono::steady_clock::duration after, EventLoop::Task then) {
    stop();
    due_ = std::chrono::steady_clock::now() + after;
    then_ = std::move(then);
    place_ = loop_.timers_.emplace(due_, this);
    loop_.set_alarm();
}

void Timer::stop() {
    if (place_ != loop_.timers_.end()) loop_.timers_.erase(place_);
    place_ = loop_.timers_.end();
    then_ = nullptr;
}

}  // namespace pulsegate
