#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// The line that a node sends first on each connection to its link:
///
///     pulsegate-link 1 west#0123456789abcdef 6f1c… redis
///
/// The number is the version of the protocol. A later one may say more at the end of the line.
struct LinkHello {
    std::string incarnation{};
    std::string birth{};  ///< of the data set
    /// Does Redis answer it, and has it done so for long enough that it may soon condemn a node?
    bool has_redis = false;

    bool operator==(const LinkHello&) const = default;
};

inline constexpr std::size_t longest_link_hello = 256;

/// With the end of the line.
std::string to_line(const LinkHello& hello);

/// Without the end of the line. Nothing if this is no node.
std::optional<LinkHello> parse_link_hello(std::string_view line);

}  // namespace pulsegate
