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
    /// Gets the events of a descriptor. The handler closes the descriptor itself.
    class Handler {
    public:
        /// `events` of epoll, edge-triggered: an event is not announced again.
        virtual void ready(std::uint32_t events) = 0;

    protected:
        ~Handler() = default;
    };

    /// Gets called at the times that it asks for.
    class Owner {
    public:
        /// Called at the time that it returned last, or `late` after it; the first time at once.
        /// Returns when it wants to be called again; `Time::max()`: never.
        virtual Time turn(Time now, Duration late) = 0;

    protected:
        ~Owner() = default;
    };

    Loop();  ///< throws `std::system_error`
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    /// Waits for events, no longer than until `when`, and handles them. For a program that has
    /// a loop of its own, instead of `run`.
    void run_once(Time when);

    /// Returns after `stop`.
    void run(Owner& owner);
    /// Any thread and signal handlers may call it.
    void stop();

    /// Registers a non-blocking descriptor for all events, edge-triggered. Closing the descriptor
    /// ends this; then call `forget`, too. Returns false if it failed; `errno` has the reason.
    bool watch(int descriptor, Handler& handler);
    /// Passes events to another handler from now on, and at once if there are events.
    void hand_over(int descriptor, Handler& from, Handler& to);
    /// Announces the present state again, for a handler that did not read or write to the end.
    void announce_again(int descriptor, Handler& handler);
    /// Calls the handler soon, without events.
    void call_soon(Handler& handler) { soon_.push_back(&handler); }
    /// The handler is no longer called for events that have already happened.
    void forget(Handler& handler);

    /// Calls the owner at `when`, unless it will be called earlier.
    void wake_at(Time when);

    /// Begins waits at least `period` apart, so that events in between are handled together. At
    /// high rates this halves the CPU of a packet, and delays it by up to `period`. Zero, the
    /// default: no delay. Events after a rest are never delayed.
    void pace(Duration period) { pace_ = period; }

    /// Everything that had happened by this time has been handled. An event that is noticed now may
    /// have waited in this process since then. It is as coarse as the time between the owner's
    /// turns.
    Time seen_until() const { return seen_until_; }

    /// Memory for the function that is being called, until it returns. Its contents are undefined.
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
    std::vector<Handler*> called_;  ///< the waiting handlers, while they are called
    std::unique_ptr<std::uint8_t[]> scratch_;
};

}  // namespace pulsegate::load
