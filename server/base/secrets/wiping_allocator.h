#pragma once

#include <openssl/crypto.h>

#include <cstddef>
#include <memory>

namespace pulsegate {

/// For containers of secrets: wipes memory before it is freed, also when a container grows.
template <class T>
struct WipingAllocator {
    using value_type = T;

    WipingAllocator() = default;
    template <class U>
    WipingAllocator(const WipingAllocator<U>&) {}

    T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
    void deallocate(T* memory, std::size_t count) {
        OPENSSL_cleanse(memory, count * sizeof(T));
        std::allocator<T>().deallocate(memory, count);
    }

    bool operator==(const WipingAllocator&) const { return true; }
};

}  // namespace pulsegate
