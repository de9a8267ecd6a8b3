#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/bytes.h"

namespace pulsegate::load {

/// Appends a number, the highest byte first.
template <class Int>
void put(Int value, Buffer& out) {
    for (int shift = (sizeof(Int) - 1) * 8; shift >= 0; shift -= 8)
        out.push_back(static_cast<char>(value >> shift & 0xff));
}

/// Takes a number from the front of `in`, which must have enough bytes.
template <class Int>
Int take(Bytes& in) {
    Int value = 0;
    for (std::size_t at = 0; at < sizeof(Int); ++at) value = static_cast<Int>(value << 8 | in[at]);
    in = in.subspan(sizeof(Int));
    return value;
}

}  // namespace pulsegate::load
