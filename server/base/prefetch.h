#pragma once

#include <cstddef>

namespace pulsegate {

/// Begins to fetch so many bytes from there on, to be written soon. With many clients what belongs
/// to the next one is in no cache, and comes while something else is done. Null does no harm.
inline void prefetch(const void* begin, std::size_t size) {
    constexpr std::size_t line = 64;
    const auto* const bytes = static_cast<const std::byte*>(begin);
    for (std::size_t i = 0; i < size; i += line) __builtin_prefetch(bytes + i, 1);
}

}  // namespace pulsegate
