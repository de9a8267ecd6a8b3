#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// The line that a node sends first on each connection to its link:
///
///     pulsegate-link 1 west#0123456789abcdef 6f1c… redis 8
///
/// The first number is the version of the protocol, the last one the number of shards. Later
/// versions may add words at the end of the line. Earlier versions did not send the last number.
struct LinkHello {
    std::string incarnation{};
    std::string birth{};  ///< of the data set
    /// Does Redis answer the node, for long enough that the node may soon condemn another one?
    bool has_redis = false;
    unsigned shards = 0;  ///< 0: the node accepts no edges

    bool operator==(const LinkHello&) const = default;
};

inline constexpr std::size_t longest_link_hello = 256;

/// The line with its line end.
std::string to_line(const LinkHello& hello);

/// `line` has no line end. Nothing if it is not the hello of a node.
std::optional<LinkHello> parse_link_hello(std::string_view line);

/// The answer of an *edge*, with its line end. An edge is a node that wants to forward the packets
/// of its clients to the node that it has connected to:
///
///     pulsegate-edge 1 east#fedcba9876543210 6f1c… 4
std::string to_edge_line(const LinkHello& edge);

/// Nothing if `line` is not of an edge, or of another version of the protocol. It does not say
/// whether the edge has Redis.
std::optional<LinkHello> parse_edge_line(std::string_view line);

}  // namespace pulsegate
