#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// A range of versions of the protocol between an edge and its home. Both use the highest version
/// that both speak, so nodes of neighbouring releases can be linked during an upgrade.
struct LinkVersions {
    unsigned first = 1;
    unsigned last = 1;

    std::string text() const;
    bool operator==(const LinkVersions&) const = default;
};

/// What this program speaks. Since version 2, edges tell their home of bans, and since version 3,
/// the home tells its edges.
inline constexpr LinkVersions our_link_versions{1, 3};

/// The highest version in both ranges; nothing if there is none.
std::optional<unsigned> common_version(const LinkVersions& one, const LinkVersions& other);

/// Why two nodes without a common version can't be linked, and the remedy.
std::string no_common_version(std::string_view peer, const LinkVersions& of_peer,
                              const LinkVersions& ours);

/// The line that a node sends first on each connection to its link. A node that asks sends its own
/// hello as the answer:
///
///     pulsegate-link 1-3 west#0123456789abcdef 6f1c… redis 8
///
/// The first word after the name is the range of versions; a single number is a range of one. The
/// last number is the number of shards. Later versions may add words at the end of the line.
/// Earlier versions did not send the last number, and take any first word for a version.
struct LinkHello {
    std::string incarnation{};
    std::string birth{};  ///< of the data set
    /// Has Redis answered the node for so long that the node may soon condemn another one?
    bool has_redis = false;
    unsigned shards = 0;  ///< 0: the node accepts no edges
    /// What the node speaks; of the peer of a link: only the version of this link.
    LinkVersions versions = our_link_versions;

    bool operator==(const LinkHello&) const = default;
};

inline constexpr std::size_t longest_link_hello = 256;
/// The longest answer to a hello. It may contain a token of the HTTP API.
inline constexpr std::size_t longest_link_answer = 1024;

/// The line with its line end.
std::string to_line(const LinkHello& hello);

/// `line` has no line end. Nothing if it is not the hello of a node.
std::optional<LinkHello> parse_link_hello(std::string_view line);

/// The request of an *edge* to the node that it has connected to. An edge is a node that forwards
/// the packets of its clients.
struct EdgeRequest {
    LinkHello edge{};        ///< its `has_redis` is not known; with the version of the link alone
    std::uint64_t link = 0;  ///< a random number that the edge has chosen
    /// The position up to which the edge has received the frames of the link; see KeptFrames.
    /// Nothing: the link is new.
    std::optional<std::uint64_t> received{};

    bool operator==(const EdgeRequest&) const = default;
};

/// The edge's answer to the hello, with its line end:
///
///     pulsegate-edge 1 east#fedcba9876543210 6f1c… 4 17320508075688772935 new
///
/// The number is the version of the link, and the last word is `new` or the position.
std::string to_edge_line(const EdgeRequest& request);

/// The answer of a node to an edge that it refuses.
inline constexpr std::string_view link_refusal = "refused\n";

/// Nothing if `line` is not the line of an edge. This node need not speak its version.
std::optional<EdgeRequest> parse_edge_line(std::string_view line);

}  // namespace pulsegate
