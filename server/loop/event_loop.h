#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/base/unique_fd.h"
#include "server/loop/poller.h"

namespace pulsegate {

class Timer;

/// The event loop of one thread. It goes round: it waits until something happens to descriptors,
/// tells those whose they are, and runs what was posted. With one wait in a round, a packet that is
/// alone takes three system calls: to wait, to read and to answer.
///
/// What other threads have posted comes first: whoever posts a message, and then lets a client do
/// what leads to another one, finds them in this order.
///
/// It does not know what it runs, and owns it until it has run. It is called in three ways, each
/// with members of its own: by its thread, by other threads, and by time.
class EventLoop {
public:
    using Task = std::function<void()>;

    /// Throws std::system_error if there are no descriptors for it.
    EventLoop();
    ~EventLoop();

    /// Goes round until `stop`.
    void run();
    void stop() { stopped_ = true; }

    /// Goes round once. It waits for so many milliseconds at most, -1: without end, and not at all
    /// if something has been posted.
    void run_round(int timeout);

    /// Runs the task behind all that was posted before: in this round, or if it is posted by a task
    /// that was posted itself, in the next.
    void post(Task task) {
        thread_.assert_here();
        posted_.push_back(std::move(task));
    }

    /// From any thread: runs it in the next round.
    void post_from_any_thread(Task task);

    Poller& poller() { return poller_; }

    /// How many rounds it has begun, and when it last had waited: whatever comes meanwhile has to
    /// wait for the rest of the round.
    std::uint64_t round() const { return round_; }
    Millis round_began() const { return round_began_; }

private:
    friend class Timer;

    using Time = std::chrono::steady_clock::time_point;
    using Timers = std::multimap<Time, Timer*>;

    /// A descriptor of the loop's own.
    struct Own final : Polled {
        explicit Own(std::function<void()> what) : then(std::move(what)) {}
        void on_ready(Readiness) override { then(); }
        const std::function<void()> then;
    };

    bool fall_asleep();
    void run_mail();
    void run_posted();
    void run_running();
    void run_due();
    void set_alarm();

    Poller poller_;
    bool stopped_ = false;
    std::uint64_t round_ = 0;
    Millis round_began_ = monotonic_now();
    std::vector<Task> posted_;
    std::vector<Task> running_;

    std::mutex mutex_;
    std::vector<Task> mail_;  ///< posted from any thread
    bool asleep_ = false;     ///< whoever posts must wake the loop
    UniqueFd wake_up_;        ///< an eventfd
    Own woken_;

    Timers timers_;
    Time alarm_ = Time::max();  ///< for which the clock is set
    UniqueFd clock_;            ///< a timerfd
    Own rung_;
    [[no_unique_address]] OwnerThread thread_;
};

/// Calls a function once, after a time; unless it is started again, stopped or destroyed before.
class Timer {
public:
    explicit Timer(EventLoop& loop) : loop_(loop), place_(loop.timers_.end()) {}
    ~Timer() { stop(); }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    /// It may destroy the timer.
    void start(std::chrono::steady_clock::duration after, EventLoop::Task then);
    void stop();

    /// When it was to call, of the last start.
    std::chrono::steady_clock::time_point due() const { return due_; }

private:
    friend class EventLoop;

    EventLoop& loop_;
    EventLoop::Time due_{};
    EventLoop::Timers::iterator place_;  ///< the end of them: it does not run
    EventLoop::Task then_;
};

}  // namespace pulsegate
