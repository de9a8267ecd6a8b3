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
    alignas(64) std::atomic<std::size_t> sum_{
        0};  // keeps other data that is read often off its cache line
};

/// One shard's part of a sum over all shards. Its destructor takes it out of the sum. It belongs to
/// the shard's thread.
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

    /// Like `set`, but only for a change by at least `grain`. Other shards need no better
    /// precision, and so the shards write to the shared cache line less often.
    void set_coarsely(std::size_t bytes, std::size_t grain) {
        if ((bytes > bytes_ ? bytes - bytes_ : bytes_ - bytes) >= grain) set(bytes);
    }

    /// The last value that was set.
    std::size_t get() const { return bytes_; }
    /// The sum over all shards, including this one.
    std::size_t all() const { return all_.get(); }

private:
    GatewaySum& all_;
    std::size_t bytes_ = 0;
};

/// Adds bytes to a shard's part until it is destroyed. The part must outlive it.
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
