#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// The line that a node sends first on each connection to its link:
///
///     pulsegate-link 1 west#0123456789abcdef 6f1c… redis
///
/// The number is the version of the protocol. Later versions may add words at the end of the line.
struct LinkHello {
    std::string incarnation{};
    std::string birth{};  ///< of the data set
    /// Does Redis answer the node, for long enough that the node may soon condemn another one?
    bool has_redis = false;

    bool operator==(const LinkHello&) const = default;
};

inline constexpr std::size_t longest_link_hello = 256;

/// The line with its line end.
std::string to_line(const LinkHello& hello);

/// `line` has no line end. Nothing if it is not the hello of a node.
std::optional<LinkHello> parse_link_hello(std::string_view line);

}  // namespace pulsegate
