#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

// Numbers of up to ten bytes, seven bits in each, the lowest first; the last byte is below 128.

inline void append_number(std::string& out, std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
    out += static_cast<char>(number);
}

/// Takes a number from the front. Nothing if there is no complete number.
inline std::optional<std::uint64_t> take_number(std::string_view& left) {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64 && !left.empty(); shift += 7) {
        const auto byte = static_cast<std::uint8_t>(left.front());
        left.remove_prefix(1);
        number |= std::uint64_t{byte & 0x7fu} << shift;
        if (byte < 0x80) return number;
    }
    return std::nullopt;
}

}  // namespace pulsegate
