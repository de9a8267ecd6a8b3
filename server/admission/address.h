#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pulsegate {

/// IPv4 as such, also if it comes in IPv6.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// Where a client comes from, as far as limits go: one IPv4 address, or an IPv6 network of 64 bits,
/// all of which belongs to one customer (RFC 6177).
class Address {
public:
    Address() = default;  ///< nowhere: it counts for no limit
    explicit Address(const boost::asio::ip::address& address);

    bool known() const { return bits_ != 0; }
    bool operator==(const Address&) const = default;

    /// "10.0.0.7" or "2001:db8::/64".
    std::string text() const;

    friend std::size_t hash_value(const Address& address) { return address.bits_; }

private:
    std::uint64_t bits_ = 0;  ///< an IPv6 prefix, or `v4_mark` with an IPv4 address
};

}  // namespace pulsegate
