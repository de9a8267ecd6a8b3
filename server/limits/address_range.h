#pragma once

#include <array>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pulsegate {

/// One IP address, or a network such as `10.0.0.0/8` or `2001:db8::/32`. IPv4 addresses that are
/// mapped to IPv6 count as IPv4.
class AddressRange {
public:
    /// Nothing if the text is neither.
    static std::optional<AddressRange> parse(std::string_view text);

    /// False if the text is not an address.
    bool contains(std::string_view address) const;

private:
    using Bits = std::array<std::uint8_t, 16>;
    AddressRange(const Bits& bits, unsigned length) : bits_(bits), length_(length) {}

    static std::optional<Bits> bits_of(std::string_view address);

    Bits bits_;
    unsigned length_;  ///< bits that must be the same
};

}  // namespace pulsegate
