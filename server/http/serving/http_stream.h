#pragma once

#include <openssl/ssl.h>

#include <boost/asio/async_result.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

namespace pulsegate {

/// TCP, or a Unix socket on this machine.
using HttpProtocol = boost::asio::generic::stream_protocol;

/// Makes the TLS session of one connection with the present certificates; null if there is no
/// memory. Empty: no TLS. A connection keeps its session as long as it lives.
using NewTlsSession = std::function<SSL*()>;

/// The bytes of a connection to the HTTP API: plain, or in TLS after `begin_tls`.
class HttpStream {
public:
    using Plain = boost::beast::basic_stream<HttpProtocol>;
    using executor_type = Plain::executor_type;

    explicit HttpStream(HttpProtocol::socket socket) : plain_(std::move(socket)) {}

    executor_type get_executor() { return plain_.get_executor(); }
    HttpProtocol::socket& socket() { return plain_.socket(); }
    template <class Duration>
    void expires_after(Duration time) {
        plain_.expires_after(time);
    }
    void close() { plain_.close(); }

    /// False if there is no memory. Call `handshake` next, before anything else.
    bool begin_tls(const NewTlsSession& make) {
        make_ = make;
        SSL* const session = make_();
        if (session) tls_.emplace(plain_, session);
        return session != nullptr;
    }
    bool has_tls() const { return tls_.has_value(); }

    template <class Token>
    auto async_handshake(Token&& token) {
        return tls_->async_handshake(boost::asio::ssl::stream_base::server,
                                     std::forward<Token>(token));
    }
    /// Tells the peer that no more data follows.
    template <class Token>
    auto async_tls_shutdown(Token&& token) {
        return tls_->async_shutdown(std::forward<Token>(token));
    }

    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token) {
        return boost::asio::async_initiate<Token, Transferred>(
            [this](auto handler, auto to) {
                if (tls_)
                    tls_->async_read_some(to, std::move(handler));
                else
                    plain_.async_read_some(to, std::move(handler));
            },
            token, buffers);
    }
    /// Reads what arrives, without TLS.
    template <class Buffers, class Token>
    auto async_read_raw(const Buffers& buffers, Token&& token) {
        return plain_.async_read_some(buffers, std::forward<Token>(token));
    }
    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token) {
        return boost::asio::async_initiate<Token, Transferred>(
            [this](auto handler, auto from) {
                if (tls_)
                    tls_->async_write_some(from, std::move(handler));
                else
                    plain_.async_write_some(from, std::move(handler));
            },
            token, buffers);
    }

private:
    using Transferred = void(boost::system::error_code, std::size_t);

    Plain plain_;
    NewTlsSession make_{};
    std::optional<boost::asio::ssl::stream<Plain&>> tls_{};
};

}  // namespace pulsegate
