#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

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

/// Bytes that count in a shard's part, which outlives them, as long as this lives.
class CountedBytes {
public:
    CountedBytes() = default;
    CountedBytes(ShardPart& part, std::size_t bytes) : part_(&part), bytes_(bytes) {
        part.add(bytes);
    }
    ~CountedBytes() {
        if (part_) part_->subtract(bytes_);
    }
    CountedBytes(CountedBytes&& other) noexcept
        : part_(std::exchange(other.part_, nullptr)), bytes_(other.bytes_) {}
    CountedBytes& operator=(CountedBytes&& other) noexcept {
        std::swap(part_, other.part_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

private:
    ShardPart* part_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace pulsegate
