#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "protocol/bytes.h"

namespace pulsegate {

using Ipv4 = std::array<std::uint8_t, 4>;
using Ipv6 = std::array<std::uint8_t, 16>;

/// Where a connection comes from, as a proxy in front of us tells it.
struct ProxySource {
    std::variant<Ipv4, Ipv6> address;
    std::uint16_t port;

    bool operator==(const ProxySource&) const = default;
};

/// What stands at the front of a connection that a proxy has passed on.
struct [[nodiscard]] ProxyHeader {
    enum class Status : std::uint8_t { complete, incomplete, bad };
    Status status;
    std::size_t size = 0;  ///< complete: bytes of the header; incomplete: bytes known to be needed
                           ///< (0: not yet known)
    /// Nothing: the proxy speaks for itself (a health check), or for what has no such address. Then
    /// the peer's own address holds.
    std::optional<ProxySource> source;
    const char* cause = nullptr;  ///< bad: in words
};

/// A header of version 1 is one line of text, its end included.
inline constexpr std::size_t longest_proxy_line = 107;

/// Version 2 could have 64 KiB of extensions; nobody needs so many.
inline constexpr std::size_t longest_proxy_block = 16 + 4096;

/// Finds the header of the PROXY protocol, version 1 or 2, that a connection must begin with.
/// The extensions of version 2 are skipped, its checksum too.
ProxyHeader proxy_header(Bytes in);

}  // namespace pulsegate
