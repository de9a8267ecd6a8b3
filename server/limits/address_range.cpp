#include "server/limits/address_range.h"

#include <charconv>
#include <system_error>

namespace pulsegate {

namespace ip = boost::asio::ip;

namespace {

constexpr unsigned ipv4_prefix = 96;  ///< bits before an IPv4 address that is mapped to IPv6

}  // namespace

/// The zone of a link-local address says which of this machine's links it is: it is left out.
std::optional<AddressRange::Bits> AddressRange::bits_of(std::string_view text) {
    boost::system::error_code error;
    const auto address = ip::make_address(text.substr(0, text.find('%')), error);
    if (error) return std::nullopt;
    const auto v6 =
        address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()) : address.to_v6();
    return v6.to_bytes();
}

std::optional<AddressRange> AddressRange::parse(std::string_view text) {
    const auto slash = text.find('/');
    const auto address = text.substr(0, slash);
    const auto bits = bits_of(address);
    if (!bits) return std::nullopt;
    if (slash == text.npos) return AddressRange(*bits, 128);
    const unsigned before = address.find(':') == address.npos ? ipv4_prefix : 0;
    const auto digits = text.substr(slash + 1);
    unsigned length = 0;
    const auto* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, length);
    if (read.ec != std::errc() || read.ptr != end || length > 128 - before) return std::nullopt;
    return AddressRange(*bits, before + length);
}

bool AddressRange::contains(std::string_view address) const {
    const auto bits = bits_of(address);
    if (!bits) return false;
    for (unsigned i = 0; i < bits_.size() && 8 * i < length_; ++i) {
        const unsigned left = length_ - 8 * i;
        const unsigned mask = left >= 8 ? 0xFF : 0xFF00U >> left;
        if ((bits_[i] ^ (*bits)[i]) & mask & 0xFF) return false;
    }
    return true;
}

}  // namespace pulsegate
