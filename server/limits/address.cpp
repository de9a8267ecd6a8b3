#include "server/limits/address.h"

#include <fmt/compile.h>

#include <algorithm>

#include "server/base/text/url.h"

namespace pulsegate {

namespace {

namespace ip = boost::asio::ip;

// Prefixes that no client has: 0:1::/32 stands for IPv4, 1 for ::/64, the network of ::1.
constexpr std::uint64_t v4_mark = std::uint64_t{1} << 32;
constexpr std::uint64_t v6_zero = 1;

/// An IPv4 address that is mapped to IPv6 as IPv4; others as they are.
ip::address unmapped(const ip::address& address) {
    const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
    return mapped ? ip::make_address_v4(ip::v4_mapped, address.to_v6()) : address;
}

/// Each login and each end of a connection asks for it, and inet_ntop goes through sprintf.
std::string v4_text(const ip::address_v4& address) {
    const auto bytes = address.to_bytes();
    return fmt::format(FMT_COMPILE("{}.{}.{}.{}"), bytes[0], bytes[1], bytes[2], bytes[3]);
}

}  // namespace

std::string address_text(const ip::address& address) {
    const auto real = unmapped(address);
    return real.is_v4() ? v4_text(real.to_v4()) : real.to_string();
}

std::string address_text(const ip::address& address, std::uint16_t port) {
    return bracketed(address_text(address)) + ":" + std::to_string(port);
}

Address::Address(const ip::address& address) {
    const auto real = unmapped(address);
    if (real.is_v4()) {
        bits_ = v4_mark | real.to_v4().to_uint();
        return;
    }
    const auto bytes = real.to_v6().to_bytes();
    for (std::size_t i = 0; i < 8; ++i) bits_ = bits_ << 8 | bytes[i];
    bits_ = std::max(bits_, v6_zero);
}

std::optional<Address> Address::parse(std::string_view text) {
    constexpr std::string_view network = "/64";
    const bool is_network = text.ends_with(network);
    if (is_network) text.remove_suffix(network.size());
    // The zone says which of this machine's links it is, which makes no difference here.
    const auto zone = text.find('%');
    const bool has_zone = zone != text.npos;
    if (has_zone && zone + 1 == text.size()) return std::nullopt;
    boost::system::error_code error;
    const auto address = ip::make_address(text.substr(0, zone), error);
    if (error) return std::nullopt;
    if (is_network && unmapped(address).is_v4()) return std::nullopt;
    if (has_zone && !(address.is_v6() && address.to_v6().is_link_local())) return std::nullopt;
    return Address(address);
}

bool Address::is_local() const {
    constexpr std::uint64_t v4_loopback = v4_mark | 0x7f000001;
    constexpr std::uint64_t v4_link_local = v4_mark >> 16 | 0xa9fe;  // 169.254.0.0/16
    constexpr std::uint64_t link_local = 0xfe80;                     // fe80::/16
    return bits_ == v6_zero || bits_ == v4_loopback || bits_ >> 16 == v4_link_local ||
           bits_ >> 48 == link_local;
}

std::string Address::text() const {
    if (bits_ >> 32 == 1) return v4_text(ip::address_v4(static_cast<std::uint32_t>(bits_)));
    ip::address_v6::bytes_type bytes{};
    for (std::size_t i = 0; i < 8 && bits_ != v6_zero; ++i)
        bytes[i] = static_cast<unsigned char>(bits_ >> (56 - 8 * i));
    return ip::address_v6(bytes).to_string() + "/64";
}

}  // namespace pulsegate
