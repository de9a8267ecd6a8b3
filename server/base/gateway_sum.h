#pragma once

#include <atomic>
#include <cstddef>

namespace pulsegate {

/// A sum over all shards. Each shard adds through a ShardPart of its own; any thread may read it.
class GatewaySum {
public:
    std::size_t get() const { return sum_.load(std::memory_order_relaxed); }

private:
    friend class ShardPart;
    alignas(64) std::atomic<std::size_t> sum_{0};  // what else is read often is not beside it
};

/// What one shard has of a sum over all shards; it leaves the sum with its end. It belongs to the
/// shard's thread.
class ShardPart {
public:
    explicit ShardPart(GatewaySum& all) : all_(all) {}
    ~ShardPart() { set(0); }
    ShardPart(const ShardPart&) = delete;
    ShardPart& operator=(const ShardPart&) = delete;

    void set(std::size_t bytes) {
        if (bytes == bytes_) return;
        all_.sum_.fetch_add(bytes - bytes_, std::memory_order_relaxed);  // modulo 2^64
        bytes_ = bytes;
    }
    void add(std::size_t bytes) { set(bytes_ + bytes); }
    void subtract(std::size_t bytes) { set(bytes_ - bytes); }

    /// The same as `set`, if it is a change by `grain` or more: the other shards need not know it
    /// better, and share a cache line less often.
    void set_coarsely(std::size_t bytes, std::size_t grain) {
        if ((bytes > bytes_ ? bytes - bytes_ : bytes_ - bytes) >= grain) set(bytes);
    }

    /// As it was set.
    std::size_t get() const { return bytes_; }
    /// Of all shards, this one included.
    std::size_t all() const { return all_.get(); }

private:
    GatewaySum& all_;
    std::size_t bytes_ = 0;
};

}  // namespace pulsegate
