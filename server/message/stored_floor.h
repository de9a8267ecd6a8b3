#pragma once

#include <cstdint>

namespace pulsegate {

/// The next start after a crash begins above this stamp. The largest number if there is no store.
/// From any thread.
std::uint64_t stored_floor();
void set_stored_floor(std::uint64_t floor);

inline constexpr std::uint64_t no_stored_floor = ~std::uint64_t{0};

}  // namespace pulsegate
