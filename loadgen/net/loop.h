#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loadgen/net/descriptor.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The event loop of one thread: edge-triggered epoll, and one deadline. Each descriptor is
/// registered once, for reading and writing alike, so that a packet costs no `epoll_ctl`.
class Loop {
public:
    /// What happens to a descriptor. It is the handler's own business to close it.
    class Handler {
    public:
        /// `events` of epoll, edge-triggered: what was announced is not announced again.
        virtual void ready(std::uint32_t events) = 0;

    protected:
        ~Handler() = default;
    };

    /// Who has something to do at a time.
    class Owner {
    public:
        /// Called when the time has come that it returned last, `late` behind it; at first at once.
        /// Returns when it wants to be called again: `Time::max()` for never.
        virtual Time turn(Time now, Duration late) = 0;

    protected:
        ~Owner() = default;
    };

    Loop();  ///< throws `std::system_error`
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    /// Returns after `stop`.
    void run(Owner& owner);
    /// From any thread and from a signal handler.
    void stop();

    /// Registers a non-blocking descriptor for everything, edge-triggered. Closing the descriptor
    /// ends that, and `forget` has to be told. False, and `errno` says why, if that failed.
    bool watch(int descriptor, Handler& handler);
    /// Has another handler be told from now on, and at once if there is something to tell.
    void hand_over(int descriptor, Handler& from, Handler& to);
    /// Announces again what holds: for a handler that did not read or write to the end.
    void announce_again(int descriptor, Handler& handler);
    /// Calls the handler soon, without events.
    void call_soon(Handler& handler) { soon_.push_back(&handler); }
    /// The handler is not called any more for what has already happened.
    void forget(Handler& handler);

    /// Has the owner called at `when`, if it isn't to be called before.
    void wake_at(Time when);

    /// Begins its waits at least so far apart, so that what comes meanwhile is handled together: at
    /// high rates that halves the CPU a packet costs, and delays it by up to `period`. Zero, as at
    /// first: no delay. What comes after a rest is never delayed.
    void pace(Duration period) { pace_ = period; }

    /// Everything that had happened by then has been handled; what is noticed now may have waited
    /// in this process since. As coarse as the owner's turns are far apart.
    Time seen_until() const { return seen_until_; }

    /// Memory for the function that is being called, until it returns; its contents are of no
    /// meaning.
    std::span<std::uint8_t> scratch() { return {scratch_.get(), scratch_size}; }
    static constexpr std::size_t scratch_size = 512 * 1024;

private:
    static constexpr std::size_t batch_size = 512;

    void take_turn(Owner& owner);
    void wait();
    void keep_pace();
    void set_timer();
    void watch_own(const Descriptor& descriptor, void* tag);
    void dispatch();
    void fetch_ahead() const;
    void call_those_waiting();

    Descriptor epoll_;
    Descriptor wake_up_;
    Descriptor timer_;
    bool stopped_ = false;
    Time next_turn_{};
    Time seen_until_{};
    Time waited_since_{};
    Time timer_set_to_ = Time::max();
    Duration pace_{};
    std::size_t at_ = 0;     ///< in the batch that is being dispatched
    std::size_t batch_ = 0;  ///< events in it
    std::array<epoll_event, batch_size> events_;
    std::vector<Handler*> soon_;
    std::vector<Handler*> called_;  ///< those who were waiting, while they are called
    std::unique_ptr<std::uint8_t[]> scratch_;
};

}  // namespace pulsegate::load
