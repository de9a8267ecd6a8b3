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
/// batch of what clients have sent, a timer, new connections, or mail from other threads. What a
/// round leaves behind (`later`) is done at its end, without a system call.
///
/// All clients are in the poller's epoll set, and the io_context watches that set as one
/// descriptor: a client costs Asio neither memory nor an operation to be armed again after each
/// packet. One batch of them is one handler, so that timers, acceptors and mail have their turns
/// in between.
///
/// What other threads have sent comes before the packets of a round: a thread that sends a message
/// here, and then lets a client do something, finds them in this order.
class Rounds {
public:
    using Task = std::function<void()>;

    /// `take_mail` takes what other threads have sent. Throws if there are no descriptors for it.
    Rounds(boost::asio::io_context& context, Task take_mail);
    ~Rounds();
    Rounds(const Rounds&) = delete;
    Rounds& operator=(const Rounds&) = delete;

    /// Calls it at the beginning of each round. It may decide that this thread does nothing more,
    /// and not return.
    void before_each(Task task) { before_ = std::move(task); }

    /// Does it at the end of this round, behind all that was left before; or, if the end of a round
    /// leaves it, at the end of the next one.
    void later(Task task);

    /// Another round follows this one, even if nothing arrives.
    void go_on();

    /// From any thread: takes the mail in a round to come.
    void wake();

    /// Does `step` in a round of its own.
    template <class Step>
    void run(Step step) {
        begin();
        step();
        end();
    }

    /// Does `step` in a round of its own when the timer expires. What the timer waited for before
    /// is given up, unless it has expired already.
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

    /// How many rounds have begun, and when the last one did: all that comes meanwhile has to wait
    /// for the rest of it.
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
    Task before_;
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
