#pragma once

#include <atomic>
#include <cstddef>

namespace pulsegate {

/// How many connections the process may hold, decided by its limit on open files. A reserve of
/// descriptors is kept for those who are turned away politely, for files and for the admin API.
class Admission {
public:
    /// Raises the soft limit on open files to the hard one, and keeps `own_files` descriptors for
    /// the process itself.
    explicit Admission(std::size_t own_files);

    /// Is there a descriptor for one more connection, if only to turn it away?
    bool can_accept() const { return open_.load(std::memory_order_relaxed) < capacity_ + courtesy; }

    /// Must newcomers be turned away?
    bool full() const { return open_.load(std::memory_order_relaxed) > capacity_; }

    void opened() { open_.fetch_add(1, std::memory_order_relaxed); }
    void closed() { open_.fetch_sub(1, std::memory_order_relaxed); }

    std::size_t open() const { return open_.load(std::memory_order_relaxed); }
    std::size_t capacity() const { return capacity_; }
    std::size_t file_limit() const { return file_limit_; }

private:
    static constexpr std::size_t courtesy = 64;

    std::size_t file_limit_;
    std::size_t capacity_;
    std::atomic<std::size_t> open_{0};
};

}  // namespace pulsegate
