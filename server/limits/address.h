#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/base/hash.h"

namespace pulsegate {

/// An IP address as text for logs, the API and backends. An IPv4 address that is mapped to IPv6 is
/// written as IPv4.
std::string address_text(const boost::asio::ip::address& address);
/// The same with the port: `10.0.0.7:1883` or `[2001:db8::1]:1883`.
std::string address_text(const boost::asio::ip::address& address, std::uint16_t port);

/// The unit of the limits by address: an IPv4 address, or an IPv6 network of 64 bits, which belongs
/// to one customer as a whole (RFC 6177).
class Address {
public:
    Address() = default;  ///< unknown: no limit applies
    explicit Address(const boost::asio::ip::address& address);
    /// Parses an IP address, with or without a zone, or the result of `text`. Nothing if it is none
    /// of them.
    static std::optional<Address> parse(std::string_view text);

    bool known() const { return bits_ != 0; }
    bool operator==(const Address&) const = default;

    /// Does it mean another machine to each machine or network: 127.0.0.1, ::1 or link-local?
    bool is_local() const;

    /// "10.0.0.7" or "2001:db8::/64".
    std::string text() const;

    /// Keyed, because a peer with many IPv6 networks can choose among them.
    friend std::size_t hash_value(const Address& address) { return keyed_hash(address.bits_); }

private:
    std::uint64_t bits_ = 0;  ///< an IPv6 prefix, or `v4_mark` with an IPv4 address
};

}  // namespace pulsegate
