#pragma once

#include <cstddef>

namespace pulsegate {

/// Begins to fetch the bytes from there on, for writing. With many clients, the data of the next
/// client is in no cache; this loads it while other work is done. Null does no harm.
inline void prefetch(const void* begin, std::size_t size) {
    constexpr std::size_t line = 64;
    const auto* const bytes = static_cast<const std::byte*>(begin);
    for (std::size_t i = 0; i < size; i += line) __builtin_prefetch(bytes + i, 1);
}

}  // namespace pulsegate
