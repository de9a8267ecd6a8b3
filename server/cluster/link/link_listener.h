#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

#include "server/cluster/link/link_hello.h"
#include "server/cluster/link/link_settings.h"

namespace pulsegate {

/// Sends a hello to every node that connects, and closes the connection. It runs on the thread of
/// `io`.
class LinkListener {
public:
    /// Throws std::runtime_error that names the port and the remedy.
    LinkListener(boost::asio::io_context& io, const LinkSettings& settings,
                 std::shared_ptr<boost::asio::ssl::context> tls, std::function<LinkHello()> hello);

    boost::asio::ip::tcp::endpoint address() const { return acceptor_.local_endpoint(); }

private:
    boost::asio::awaitable<void> accept();
    boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket);

    boost::asio::ip::tcp::acceptor acceptor_;
    const std::shared_ptr<boost::asio::ssl::context> tls_;
    const std::function<LinkHello()> hello_;
    int guests_ = 0;
};

}  // namespace pulsegate
