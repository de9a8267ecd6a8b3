#pragma once

#include <cstdint>
#include <string_view>

namespace pulsegate {

/// CRC-32C (Castagnoli), eight bytes at a time: each message that is stored or read passes here.
class Crc32c {
public:
    /// Uses the processor's instruction for it, if there is one.
    void add(std::string_view bytes);
    void add_by_tables(std::string_view bytes);
    /// The checksum of all bytes that were added.
    std::uint32_t value() const { return ~state_; }

private:
    std::uint32_t state_ = ~std::uint32_t{0};
};

}  // namespace pulsegate
