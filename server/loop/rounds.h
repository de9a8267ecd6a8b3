#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/owner_thread.h"
#include "server/loop/poller.h"

namespace pulsegate {

/// The rounds in which one thread's io_context serves a shard. A round is one handler of ours: a
/// batch of packets from clients, a timer, new connections, or mail from other threads. At its end
/// a round does the work that was left for later (`later`), without a system call.
///
/// All clients are in the poller's epoll set, and the io_context watches that set as one
/// descriptor. So a client costs Asio no memory, and no operation to be armed again after each
/// packet. One batch is one handler, so timers, acceptors and mail get their turns in between.
///
/// A round takes the mail from other threads before its packets. So if a thread sends a message
/// here and then makes a client act, the shard handles them in this order.
class Rounds {
public:
    using Task = std::function<void()>;

    /// `take_mail` takes the mail from other threads. Throws if there are no descriptors for it.
    Rounds(boost::asio::io_context& context, Task take_mail);
    ~Rounds();
    Rounds(const Rounds&) = delete;
    Rounds& operator=(const Rounds&) = delete;

    /// Calls `task` at the beginning of each round, and in `guard`. To stop this thread, it may
    /// never return.
    void guard_by(Task task) { guard_ = std::move(task); }

    /// Call it before anything leaves the shard. If the process stood still in the middle of a
    /// round, others must not learn what the shard has concluded from that.
    void guard() const {
        if (guard_) guard_();
    }

    /// Runs `task` at the end of this round, after earlier ones. A task that the end of a round
    /// adds is run at the end of the next one.
    void later(Task task);

    /// Adds another round after this one, even if nothing arrives.
    void go_on();

    /// From any thread: makes a round take the mail.
    void wake();

    /// Runs `step` in a round of its own.
    template <class Step>
    void run(Step step) {
        begin();
        step();
        end();
    }

    /// Runs `step` in a round of its own when the timer expires. This cancels the timer's earlier
    /// step, unless that has expired already.
    template <class Step>
    void at(boost::asio::steady_timer& timer, std::chrono::steady_clock::time_point when,
            Step step) {
        timer.expires_at(when);
        timer.async_wait([this, step = std::move(step)](const boost::system::error_code& error) {
            if (!error) run(step);
        });
    }
    template <class Step>
    void after(boost::asio::steady_timer& timer, std::chrono::steady_clock::duration time,
               Step step) {
        at(timer, std::chrono::steady_clock::now() + time, std::move(step));
    }

    boost::asio::io_context& context() { return context_; }
    Poller& poller() { return poller_; }

    /// The number of rounds that have begun, and the time when the last one began. Everything that
    /// arrives meanwhile waits for its end.
    std::uint64_t round() const { return round_; }
    Millis round_began() const { return began_; }

private:
    using Clients =
        boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>;

    void watch();
    void serve_batch();
    void begin();
    void end();

    boost::asio::io_context& context_;
    const Task take_mail_;
    Task guard_;
    Poller poller_;
    Clients clients_;  ///< the poller's set
    std::uint64_t round_ = 0;
    Millis began_ = monotonic_now();
    bool under_way_ = false;
    bool going_on_ = false;  ///< another round is posted
    std::vector<Task> left_;
    std::vector<Task> running_;
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
