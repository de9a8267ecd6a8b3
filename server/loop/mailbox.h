#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "server/loop/rounds.h"

namespace pulsegate {

/// Carries items from other threads to a shard. Senders append them under a short lock, and the
/// shard takes them all at once. Only the step from empty to non-empty wakes the shard, so a burst
/// costs one wake-up. A shard that has not read everything counts as awake.
///
/// It owns the items until they are taken. Any thread may call `send` and `weight`; all else is for
/// the shard's thread.
template <class Item>
class Mailbox {
public:
    /// The `take_mail` of `rounds` must call `next` until nothing is left, or ask for another
    /// round.
    explicit Mailbox(Rounds& rounds) : rounds_(rounds) {}

    /// From any thread. Returns the weight of all waiting items, in bytes, as stated by the
    /// senders.
    std::size_t send(Item item, std::size_t weight) {
        const auto sum = weight_.fetch_add(weight, std::memory_order_relaxed) + weight;
        bool wakes = false;
        {
            std::lock_guard lock(mutex_);
            waiting_.push_back({std::move(item), weight});
            wakes = !std::exchange(awake_, true);
        }
        if (wakes) rounds_.wake();
        return sum;
    }

    /// From any thread: the weight of all items that `next` has not returned.
    std::size_t weight() const { return weight_.load(std::memory_order_relaxed); }

    /// The next item in order of arrival; nothing if the mailbox is empty.
    [[nodiscard]] std::optional<Item> next() {
        if (next_ == taken_.size()) {
            take();
            if (taken_.empty()) return std::nullopt;
        }
        Entry& entry = taken_[next_++];
        weight_.fetch_sub(entry.weight, std::memory_order_relaxed);
        return std::move(entry.item);
    }

private:
    struct Entry {
        Item item;
        std::size_t weight;
    };

    /// Lets the senders reuse the memory of the items taken before, unless a burst has made it
    /// large.
    void take() {
        constexpr std::size_t kept = 64;
        next_ = 0;
        taken_.clear();
        if (taken_.capacity() > kept) taken_.shrink_to_fit();
        std::lock_guard lock(mutex_);
        taken_.swap(waiting_);
        awake_ = !taken_.empty();
    }

    Rounds& rounds_;
    std::mutex mutex_;
    std::vector<Entry> waiting_;
    bool awake_ = false;  ///< the shard was woken, and has not found it empty since
    std::atomic<std::size_t> weight_{0};
    std::vector<Entry> taken_;  ///< `next` has returned those before `next_`
    std::size_t next_ = 0;
};

}  // namespace pulsegate
