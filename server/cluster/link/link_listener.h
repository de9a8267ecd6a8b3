#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"
#include "server/cluster/link/carried_request.h"
#include "server/cluster/link/link_hello.h"
#include "server/cluster/link/link_settings.h"

namespace pulsegate {

class FrameStream;
class LinkSocket;

/// Sends a hello to every node that connects, and gives the connection to its owner. New links of
/// edges and requests to the HTTP API go to their handlers. A reconnected link goes to its stream.
/// All other connections are closed. It runs on the thread of `io`.
class LinkListener {
public:
    using EdgeHandler = std::function<void(std::shared_ptr<FrameStream>)>;
    /// The socket carries HTTP/1.1 from a client of another node.
    using RequestHandler = std::function<void(UniqueFd socket, CarriedRequest request)>;

    /// Throws std::runtime_error that names the port and the remedy.
    LinkListener(boost::asio::io_context& io, const LinkSettings& settings,
                 std::shared_ptr<boost::asio::ssl::context> tls, std::function<LinkHello()> hello);

    boost::asio::ip::tcp::endpoint address() const { return acceptor_.local_endpoint(); }

    /// Has a node asked this one within the last `most`, and said that it has Redis? Any thread may
    /// call it.
    bool was_asked_with_redis(Millis most) const;

    /// From now on the hello says that this node has this many shards. The handlers get the links
    /// of edges and the requests on the thread of `io`. Any thread may call it.
    void accept_edges(unsigned shards, EdgeHandler handler, RequestHandler request_handler);
    /// After it returns, no call of a handler is running. So a handler must not call it. Any other
    /// thread may.
    void refuse_edges() { accept_edges(0, nullptr, nullptr); }

private:
    boost::asio::awaitable<void> accept();
    void close_oldest_unidentified();
    boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket);
    LinkHello hello() const;
    void note_asker(const LinkHello& asker);
    bool speaks_version_of(const EdgeRequest& request);
    bool hand_over(std::shared_ptr<LinkSocket> socket, EdgeRequest request);
    UniqueFd hand_over(CarriedRequest request);
    boost::asio::awaitable<void> refuse(std::shared_ptr<LinkSocket> peer, bool says_so);

    boost::asio::ip::tcp::acceptor acceptor_;
    const std::shared_ptr<boost::asio::ssl::context> tls_;
    const std::function<LinkHello()> hello_;
    /// Connections that have not stated their purpose yet, the oldest first.
    std::list<std::shared_ptr<LinkSocket>> unidentified_;
    int requests_ = 0;                 ///< the number of carried requests
    std::string refused_for_version_;  ///< the incarnation of the edge that was refused last
    mutable std::mutex asker_mutex_;
    std::string asker_with_redis_;  ///< the incarnation that asked last and had Redis; guarded by
                                    ///< `asker_mutex_`
    Millis asked_with_redis_ = 0;   ///< its time, by `boot_now`; guarded by `asker_mutex_`
    mutable std::mutex mutex_;
    unsigned shards_ = 0;             ///< guarded by the mutex
    EdgeHandler edge_handler_;        ///< guarded by the mutex, also while it is called
    RequestHandler request_handler_;  ///< the same
};

}  // namespace pulsegate
