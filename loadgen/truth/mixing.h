#pragma once

#include <cstdint>

namespace pulsegate::load {

/// A number that looks random but is computed from other numbers, so that every worker knows the
/// actions of other workers' clients. (The finalizer of SplitMix64.)
constexpr std::uint64_t mix(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

template <class... More>
constexpr std::uint64_t mix(std::uint64_t first, std::uint64_t second, More... more) {
    return mix(mix(first) ^ second, static_cast<std::uint64_t>(more)...);
}

/// From 0 to 1, without 1.
constexpr double fraction_of(std::uint64_t mixed) {
    return static_cast<double>(mixed >> 11) * 0x1p-53;
}

}  // namespace pulsegate::load
