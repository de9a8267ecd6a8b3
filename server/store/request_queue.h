#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "server/store/request.h"

namespace pulsegate {

/// Where requests wait for the ledger's thread, in the order of their arrival. Lazy ones don't wake
/// it, but none waits for longer than a second.
class RequestQueue {
public:
    using Clock = std::chrono::steady_clock;

    // From any thread.

    void add(Request request);
    void add_lazily(Request request);
    void stop();

    // From the ledger's thread.

    /// Waits until a request is to be done, or the queue is stopped; false: until `until`.
    bool wait(Clock::time_point until);

    /// Lets the time pass. False if the queue is stopped.
    bool sleep(Clock::duration time);

    /// Appends all requests, lazy ones too.
    void take(std::deque<Request>& out);

    bool stopped();

private:
    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<Request> waiting_;
    std::optional<Clock::time_point> lazy_due_;  ///< of the oldest lazy request
    bool urgent_ = false;                        ///< some request is not lazy
    bool stopped_ = false;
};

}  // namespace pulsegate
