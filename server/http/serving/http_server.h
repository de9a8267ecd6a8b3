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
#include "server/http/serving/http_stream.h"

namespace pulsegate {

/// Speaks HTTP/1.1: it owns listeners, connections and a thread of its own, reads requests and
/// writes what `Handler` says. It bounds connections, times and bodies, and knows no resource.
class HttpServer {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// All run on the server's thread. A request is valid until it is answered.
    struct Handler {
        // When there is only a header yet.

        std::function<std::size_t(const ApiRequest&)> most_body_bytes;
        /// What the answer is whatever the body; nothing: that depends.
        std::function<std::optional<ApiReply>(const ApiRequest&)> refusal;
        /// Does it ask whether the gateway is well? It is answered however many others there are.
        std::function<bool(const ApiRequest&)> is_probe;

        std::function<boost::asio::awaitable<ApiReply>(const ApiRequest&)> answer;
        /// Is told of each answer, refusals included. What could not be read as a request has no
        /// path.
        std::function<void(const ApiRequest&, boost::beast::http::status)> answered{};
    };

    explicit HttpServer(Handler handler);
    ~HttpServer();

    /// What runs on the server's thread.
    boost::asio::io_context& io();

    /// Call it before `start`. Returns the endpoint with its real port. `only_ipv6`: the port is
    /// another listener's for IPv4. Throws boost::system::system_error.
    Endpoint listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls);

    /// New connections to listeners with TLS use this. Any thread.
    void use(NewTlsSession new_tls_session);

    /// The same on a socket that listens already.
    Endpoint listen(const Endpoint& endpoint, UniqueFd inherited, bool has_tls);
    /// The same on a Unix socket that only this process's user and root may use. What is left of
    /// an earlier one is removed. Throws boost::system::system_error.
    void listen_locally(const std::string& path);
    /// The same on a socket at that path that listens already.
    void listen_locally(const std::string& path, UniqueFd inherited);
    /// The sockets that listen, in the order of the calls, and the Unix socket; -1: there is none.
    /// They stay the server's.
    std::vector<int> listening() const;
    int listening_locally() const;

    void start();
    void stop();

    /// Has the server's thread stand still, on return, until `release`.
    void hold();
    void release();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    std::thread thread_;
    std::promise<void> released_;
};

}  // namespace pulsegate
