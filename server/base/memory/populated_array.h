#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace pulsegate {

/// An array of zeroed values. All its pages are in memory from the start, which takes one system
/// call. The pages of a vector would come one by one, when they are written first. Each of them is
/// an exception then, which takes some virtual machines 16 us.
template <class T>
class PopulatedArray {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
    /// Throws std::bad_alloc. `size` is at least 1.
    explicit PopulatedArray(std::size_t size) : size_(size) {
        void* const pages = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (pages == MAP_FAILED) throw std::bad_alloc();
        values_ = static_cast<T*>(pages);
    }
    ~PopulatedArray() { ::munmap(values_, bytes()); }
    PopulatedArray(const PopulatedArray&) = delete;
    PopulatedArray& operator=(const PopulatedArray&) = delete;

    std::size_t size() const { return size_; }
    T& operator[](std::size_t index) { return values_[index]; }
    const T& operator[](std::size_t index) const { return values_[index]; }
    const T* begin() const { return values_; }
    const T* end() const { return values_ + size_; }

private:
    std::size_t bytes() const { return size_ * sizeof(T); }

    T* values_;
    const std::size_t size_;
};

}  // namespace pulsegate
