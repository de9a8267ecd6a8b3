#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/base/files/unique_fd.h"
#include "server/cluster/link/link_hello.h"

namespace pulsegate {

class LinkSocket;

/// A request to the HTTP API of one node, to be answered by the node with the data. It has its own
/// connection between the nodes, which carries HTTP/1.1 after the hello and the node's line.
struct CarriedRequest {
    LinkHello node{};       ///< the receiving node; its `has_redis` and `shards` are not known
    std::string address{};  ///< the client's; "": it uses the Unix socket
    std::string token{};    ///< the name of the client's token; "": there are no tokens
    /// Has the node shown a certificate? If not, any program of this machine may have sent the
    /// line, so the client's token must be checked here as well.
    bool is_of_node = false;

    bool operator==(const CarriedRequest&) const = default;
};

/// The most requests that a node answers for other nodes at a time.
inline constexpr int most_carried_requests = 256;
/// The most connections to a node's link that have not shown yet which node they are: so many
/// requests may come at once, and the other nodes beside them.
inline constexpr int most_unidentified_links = most_carried_requests + 64;

/// The node's answer to the hello, with its line end:
///
///     pulsegate-http 1 east#fedcba9876543210 6f1c… 192.0.2.7 shop
///
/// The last two words are percent-encoded; "-" stands for "".
std::string to_request_line(const CarriedRequest& request);

/// Nothing if `line` is not a line of a carried request, or of another version of the protocol.
std::optional<CarriedRequest> parse_request_line(std::string_view line);

/// Moves bytes between the other node and this socket until one of them ends.
boost::asio::awaitable<void> carry(std::shared_ptr<LinkSocket> link, UniqueFd end);

}  // namespace pulsegate
