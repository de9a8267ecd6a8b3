#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <utility>
#include <vector>

namespace pulsegate {

/// How another thread reaches a shard: values go in under a short lock, and the shard takes them
/// all at once. Only the step from empty to non-empty wakes it, so a burst costs one wake-up.
template <class Mail>
class Mailbox {
public:
    explicit Mailbox(boost::asio::io_context& io) : io_(io) {}

    /// From any thread. `drain` runs on the owner's thread and must call `take`.
    template <class Drain>
    void send(Mail mail, Drain drain) {
        {
            std::lock_guard lock(mutex_);
            waiting_.push_back(std::move(mail));
            if (waiting_.size() > 1) return;
        }
        boost::asio::post(io_, std::move(drain));
    }

    /// All that has arrived, in order; for the owner's thread.
    std::vector<Mail> take() {
        std::vector<Mail> taken;
        std::lock_guard lock(mutex_);
        waiting_.swap(taken);
        return taken;
    }

private:
    boost::asio::io_context& io_;
    std::mutex mutex_;
    std::vector<Mail> waiting_;
};

}  // namespace pulsegate
