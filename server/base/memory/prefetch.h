#pragma once

#include <cstddef>

namespace pulsegate {

/// Begins to fetch these bytes into the cache, for writing. With many clients, the data of the next
/// client is in no cache; so it is loaded while other work is done. Null is allowed.
inline void prefetch(const void* begin, std::size_t size) {
    constexpr std::size_t line = 64;
    const auto* const bytes = static_cast<const std::byte*>(begin);
    for (std::size_t i = 0; i < size; i += line) __builtin_prefetch(bytes + i, 1);
}

}  // namespace pulsegate
