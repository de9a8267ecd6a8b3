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

/// The origin of a connection, as told by a proxy in front of the gateway.
struct ProxySource {
    std::variant<Ipv4, Ipv6> address;
    std::uint16_t port;

    bool operator==(const ProxySource&) const = default;
};

/// The beginning of a connection that a proxy has passed on.
struct [[nodiscard]] ProxyHeader {
    enum class Status : std::uint8_t { complete, incomplete, bad };
    Status status;
    std::size_t size = 0;  ///< complete: bytes of the header; incomplete: bytes known to be needed
                           ///< (0: not yet known)
    /// Nothing: the proxy speaks for itself (a health check), or for a client without an IP
    /// address. Then the peer's own address is used.
    std::optional<ProxySource> source;
    const char* cause = nullptr;  ///< bad: in words
};

/// A header of version 1 is one line of text; this includes the line's end.
inline constexpr std::size_t longest_proxy_line = 107;

/// Version 2 allows 64 KiB of extensions, but no proxy needs that much.
inline constexpr std::size_t longest_proxy_block = 16 + 4096;

/// Finds the header of the PROXY protocol, version 1 or 2, that a connection must begin with. The
/// extensions of version 2 are skipped, including its checksum.
ProxyHeader proxy_header(Bytes in);

}  // namespace pulsegate
