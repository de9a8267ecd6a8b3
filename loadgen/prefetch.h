#pragma once

#include <cstddef>

namespace pulsegate::load {

/// Loads memory that will be needed soon into the caches.
inline void prefetch(const void* memory, std::size_t size) {
    constexpr std::size_t cache_line = 64;
    for (std::size_t at = 0; at < size; at += cache_line)
        __builtin_prefetch(static_cast<const char*>(memory) + at);
}

}  // namespace pulsegate::load
