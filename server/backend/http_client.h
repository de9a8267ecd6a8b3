#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/text/url.h"

namespace boost::asio::ssl {
class context;
}

namespace pulsegate {

/// What a company's backend has said to a request.
struct HttpReply {
    std::string trouble{};  ///< why there is no complete answer; "": there is one
    unsigned status = 0;    ///< also if the rest of the answer did not come; 0: nothing came
    std::string body{};
    std::optional<std::chrono::seconds> retry_after{};
};

/// What is read from files: authorities to trust, and what to show.
struct HttpCredentials {
    std::shared_ptr<boost::asio::ssl::context> authorities{};  ///< null for http
    std::string token{};                                       ///< "": none is shown
};

/// The authorities of a PEM file, or with "" those that the system trusts. Throws
/// std::runtime_error that names the setting and the remedy.
std::shared_ptr<boost::asio::ssl::context> read_authorities(std::string_view setting,
                                                            const std::string& ca_file);

/// Posts JSON to one backend, or gets it from there, over HTTP/1.1, with or without TLS, and keeps
/// its connections for further requests. A request is sent once; only if it is idempotent, and a
/// connection that had been used before turns out to be closed, it is sent again, on a new one. All
/// runs on the thread of `io`.
class HttpClient {
public:
    using Fields = std::vector<std::pair<std::string_view, std::string>>;

    /// A request under way. It belongs to the caller, and outlives the request.
    class Call {
    public:
        /// The request fails, as soon as may be.
        void give_up();

    private:
        friend HttpClient;
        struct Connection;
        bool given_up_ = false;
        std::shared_ptr<Connection> connection_{};
    };

    HttpClient(boost::asio::io_context& io, HttpUrl url, std::size_t longest_answer)
        : io_(io), url_(std::move(url)), longest_answer_(longest_answer) {}

    const HttpUrl& url() const { return url_; }

    /// For all requests from now on; before the first one, too.
    void use(std::shared_ptr<const HttpCredentials> credentials);

    /// The body and the header's further `fields` must live until the reply.
    boost::asio::awaitable<HttpReply> post(Call& call, const std::string& body,
                                           const Fields& fields = {}, bool is_idempotent = true);
    boost::asio::awaitable<HttpReply> get(Call& call);

private:
    using Connection = Call::Connection;
    struct Exchange;

    template <class Request>
    boost::asio::awaitable<HttpReply> send(Call& call, Request request,
                                           std::shared_ptr<const HttpCredentials> with,
                                           bool is_idempotent);
    boost::asio::awaitable<std::string> open(Call& call, const HttpCredentials& with);
    HttpReply finish(Call& call, Exchange exchange,
                     const std::shared_ptr<const HttpCredentials>& with);
    std::shared_ptr<Connection> take_idle();
    void keep(std::shared_ptr<Connection> connection);
    void drop_old();

    boost::asio::io_context& io_;
    const HttpUrl url_;
    const std::size_t longest_answer_;
    std::shared_ptr<const HttpCredentials> credentials_{};
    std::deque<std::shared_ptr<Connection>> idle_;  ///< the one that was used last at the end
};

}  // namespace pulsegate
