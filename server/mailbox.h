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

    /// From any thread. `drain` runs on the owner's thread and must call `take`. Returns how much
    /// waits now.
    template <class Drain>
    std::size_t send(Mail mail, Drain drain) {
        std::size_t size = 0;
        {
            std::lock_guard lock(mutex_);
            waiting_.push_back(std::move(mail));
            size = waiting_.size();
        }
        if (size == 1) boost::asio::post(io_, std::move(drain));
        return size;
    }

    /// From any thread.
    std::size_t size() const {
        std::lock_guard lock(mutex_);
        return waiting_.size();
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
    mutable std::mutex mutex_;
    std::vector<Mail> waiting_;
};

}  // namespace pulsegate
