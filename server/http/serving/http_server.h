#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/base/files/unique_fd.h"
#include "server/http/serving/api_message.h"
#include "server/http/serving/http_connections.h"
#include "server/http/serving/http_stream.h"

namespace pulsegate {

/// An HTTP/1.1 server with listeners, connections and a thread of its own. It reads requests and
/// writes the replies of its `Handler`. It limits connections, times and bodies, and knows no
/// resource.
class HttpServer {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// All functions run on the server's thread. A request is valid until it is answered.
    struct Handler {
        // These are called with the header only.

        std::function<std::size_t(const ApiRequest&)> most_body_bytes;
        /// The answer if the request is refused whatever its body; nothing if it is not.
        std::function<std::optional<ApiReply>(const ApiRequest&)> refusal;
        /// True if the request asks whether the gateway is well. It is answered however many other
        /// requests there are.
        std::function<bool(const ApiRequest&)> is_probe;

        std::function<boost::asio::awaitable<ApiReply>(const ApiRequest&)> answer;
        /// Called for each answer, including refusals. If the request could not be read, its path
        /// is empty.
        std::function<void(const ApiRequest&, boost::beast::http::status)> answered{};
    };

    explicit HttpServer(Handler handler);
    ~HttpServer();

    /// The context of the server's thread.
    boost::asio::io_context& io();

    /// Call it before `start`. Returns the endpoint with its real port. `only_ipv6`: another
    /// listener has the port for IPv4. Throws boost::system::system_error.
    Endpoint listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls);

    /// New connections to listeners with TLS use this. Any thread.
    void use(NewTlsSession new_tls_session);

    /// The same, on a socket that listens already.
    Endpoint listen(const Endpoint& endpoint, UniqueFd inherited, bool has_tls);
    /// The same, on a Unix socket that only this process's user and root may use. Removes the file
    /// of an earlier socket. Throws boost::system::system_error.
    void listen_locally(const std::string& path);
    /// The same, on a socket at that path that listens already.
    void listen_locally(const std::string& path, UniqueFd inherited);
    /// Serves a client of another node on a connected Unix socket. Any thread.
    void adopt(UniqueFd socket, HttpCaller caller);
    /// The listening sockets, in the order of the calls, and the Unix socket, or -1. The server
    /// still owns them.
    std::vector<int> listening() const;
    int listening_locally() const;

    void start();
    void stop();

    /// Stops the server's thread, before it returns, until `release`.
    void hold();
    void release();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    std::thread thread_;
    std::promise<void> released_;
};

}  // namespace pulsegate
