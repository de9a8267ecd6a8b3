#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "server/cluster/link/frame_stream.h"
#include "server/cluster/link/link_hello.h"
#include "server/cluster/link/link_settings.h"

namespace pulsegate {

/// The node that owns the data, from the viewpoint of an edge.
struct HomeNode {
    std::string address{};  ///< address of its link
    std::string incarnation{};
};

struct DialedHome {
    std::shared_ptr<FrameStream> stream{};  ///< null: there is no connection
    std::string why{};                      ///< why there is no connection
    /// The node has answered that it accepts no edges: it has just begun to own the data, or stops.
    bool accepts_no_edges = false;
};

/// Links the node `self` to a home, as its edge. When the link loses its connection, it gets
/// another one as long as the same process of the home runs. `self.shards` is this node's number of
/// shards. Without TLS if `tls` is null. `patience` is for all steps of a connection except the
/// resolution of the address.
boost::asio::awaitable<DialedHome> dial_home(HomeNode home,
                                             std::shared_ptr<boost::asio::ssl::context> tls,
                                             LinkHello self, std::chrono::milliseconds patience);

}  // namespace pulsegate
