#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "server/store/request.h"

namespace pulsegate {

/// The queue of requests to the ledger's thread, in the order of their arrival. Lazy requests don't
/// wake the thread, but none waits for longer than a second.
class RequestQueue {
public:
    using Clock = std::chrono::steady_clock;

    // Any thread may call these.

    void add(Request request);
    void add_lazily(Request request);
    void stop();

    // Only the ledger's thread may call these.

    /// Waits until a request is due or the queue is stopped. Returns false if `until` came first.
    bool wait(Clock::time_point until);

    /// Sleeps. Returns false if the queue is stopped.
    bool sleep(Clock::duration time);

    /// Appends all requests, including lazy ones.
    void take(std::deque<Request>& out);

    bool stopped();

private:
    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<Request> waiting_;
    std::optional<Clock::time_point> lazy_due_;  ///< when the oldest lazy request is due
    bool urgent_ = false;                        ///< some request is not lazy
    bool stopped_ = false;
};

}  // namespace pulsegate
