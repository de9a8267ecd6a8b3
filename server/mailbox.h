#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
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

    /// From any thread. `drain` runs on the owner's thread and must call `take` until it is empty.
    /// Returns the weight in bytes, as the senders state it, of all that waits now.
    template <class Drain>
    std::size_t send(Mail mail, std::size_t weight, Drain drain) {
        bool first = false;
        std::size_t sum = 0;
        {
            std::lock_guard lock(mutex_);
            first = waiting_.empty();
            waiting_.push_back(std::move(mail));
            sum = weight_ += weight;
        }
        if (first) boost::asio::post(io_, std::move(drain));
        return sum;
    }

    /// From any thread.
    std::size_t weight() const {
        std::lock_guard lock(mutex_);
        return weight_;
    }

    /// All that has arrived, in order; for the owner's thread.
    std::vector<Mail> take() {
        std::vector<Mail> taken;
        std::lock_guard lock(mutex_);
        waiting_.swap(taken);
        weight_ = 0;
        return taken;
    }

private:
    boost::asio::io_context& io_;
    mutable std::mutex mutex_;
    std::vector<Mail> waiting_;
    std::size_t weight_ = 0;
};

}  // namespace pulsegate
