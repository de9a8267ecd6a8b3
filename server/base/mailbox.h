#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace pulsegate {

/// How other threads reach a shard: senders append items under a short lock, and the shard takes
/// them all at once. Only the step from empty to non-empty wakes the shard, so a burst costs one
/// wake-up.
///
/// It owns the items until they are taken. Any thread may send; all else is for the shard's thread.
template <class Item>
class Mailbox {
public:
    explicit Mailbox(boost::asio::io_context& io) : io_(io) {}

    /// From any thread. `drain` runs on the shard's thread and must call `take` or `next` until
    /// nothing is left. Returns the weight in bytes, as the senders state it, of all items that
    /// wait now.
    template <class Drain>
    std::size_t send(Item item, std::size_t weight, Drain drain) {
        bool first = false;
        std::size_t sum = 0;
        {
            std::lock_guard lock(mutex_);
            first = waiting_.empty();
            waiting_.push_back(std::move(item));
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

    /// All items that wait, in order of arrival.
    [[nodiscard]] std::vector<Item> take() {
        std::vector<Item> taken;
        std::lock_guard lock(mutex_);
        waiting_.swap(taken);
        weight_ = 0;
        return taken;
    }

    /// The next item in order of arrival; nothing if the mailbox is empty.
    [[nodiscard]] std::optional<Item> next() {
        if (next_ == taken_.size()) {
            taken_ = take();
            next_ = 0;
            if (taken_.empty()) return std::nullopt;
        }
        return std::move(taken_[next_++]);
    }

private:
    boost::asio::io_context& io_;
    mutable std::mutex mutex_;
    std::vector<Item> waiting_;
    std::size_t weight_ = 0;
    std::vector<Item> taken_;  ///< `next` has handed out those before `next_`
    std::size_t next_ = 0;
};

}  // namespace pulsegate
