#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <set>
#include <utility>

namespace pulsegate {

/// Wakes the coroutines of one thread when the event log has news. They check the log themselves
/// before they wait. News in between is not missed, because it arrives through the thread's queue.
class EventNews {
public:
    using Time = boost::asio::steady_timer::time_point;

    explicit EventNews(boost::asio::io_context& io) : io_(io) {}

    /// From any thread.
    void tell() {
        if (told_.exchange(true)) return;  // they have not been woken yet
        boost::asio::post(io_, [this] {
            told_ = false;
            for (auto* timer : *waiting_) timer->cancel();
        });
    }

    /// Waits for news, or until the deadline.
    boost::asio::awaitable<void> wait(Time deadline = Time::max()) {
        boost::asio::steady_timer timer(io_, deadline);
        const WaitingTimer waiting(waiting_, timer);
        boost::system::error_code cancelled;
        co_await timer.async_wait(
            boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
    }

private:
    using Waiting = std::set<boost::asio::steady_timer*>;

    class WaitingTimer {
    public:
        WaitingTimer(std::shared_ptr<Waiting> waiting, boost::asio::steady_timer& timer)
            : waiting_(std::move(waiting)), timer_(timer) {
            waiting_->insert(&timer_);
        }
        ~WaitingTimer() { waiting_->erase(&timer_); }
        WaitingTimer(const WaitingTimer&) = delete;
        WaitingTimer& operator=(const WaitingTimer&) = delete;

    private:
        const std::shared_ptr<Waiting> waiting_;
        boost::asio::steady_timer& timer_;
    };

    boost::asio::io_context& io_;
    /// Shared, because coroutines that still wait at the end are destroyed by `io`, after this.
    const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
    std::atomic<bool> told_{false};
};

}  // namespace pulsegate
