#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "protocol/bytes.h"

namespace pulsegate {

/// A variable byte integer (MQTT 5.0, section 1.5.5) has at most four bytes of seven bits.
inline constexpr std::uint32_t varint_limit = 268'435'455;

/// How many bytes a variable byte integer takes.
constexpr std::size_t varint_size(std::size_t value) {
    return value < 1u << 7 ? 1 : value < 1u << 14 ? 2 : value < 1u << 21 ? 3 : 4;
}
static_assert(varint_size(127) == 1 && varint_size(128) == 2 && varint_size(varint_limit) == 4);

// The data types of MQTT (section 1.5), appended.

inline void put_u8(Buffer& out, unsigned value) { out.push_back(static_cast<char>(value)); }

inline void put_u16(Buffer& out, unsigned value) {
    const char bytes[] = {static_cast<char>(value >> 8), static_cast<char>(value)};
    out.append(bytes, sizeof bytes);
}

inline void put_u32(Buffer& out, std::uint32_t value) {
    put_u16(out, value >> 16);
    put_u16(out, value & 0xFFFF);
}

inline void put_varint(Buffer& out, std::size_t value) {
    assert(value <= varint_limit);
    for (; value > 0x7F; value >>= 7) put_u8(out, 0x80 | (value & 0x7F));
    put_u8(out, static_cast<unsigned>(value));
}

inline void put_text(Buffer& out, std::string_view text) {
    assert(text.size() <= 0xFFFF);
    put_u16(out, static_cast<unsigned>(text.size()));
    out.append(text);
}

}  // namespace pulsegate
