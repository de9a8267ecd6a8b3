#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pulsegate {

/// Bytes that were received; read before the next read from the socket, never stored.
using Bytes = std::span<const std::uint8_t>;

/// Bytes to be sent. A string, because its small-buffer keeps a PINGRESP or a PUBACK off the heap.
using Buffer = std::string;

inline std::string_view as_text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline Bytes as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace pulsegate
