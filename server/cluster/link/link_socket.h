#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pulsegate {

/// A connection between two nodes, with TLS if the nodes have certificates. One thread uses it.
class LinkSocket {
public:
    using Error = boost::system::error_code;

    /// Without TLS if `tls` is null.
    LinkSocket(boost::beast::tcp_stream tcp, std::shared_ptr<boost::asio::ssl::context> tls);
    LinkSocket(const LinkSocket&) = delete;
    LinkSocket& operator=(const LinkSocket&) = delete;

    boost::beast::tcp_stream& tcp() { return tcp_; }
    bool has_tls() const { return secured_.has_value(); }

    /// Does nothing without TLS.
    boost::asio::awaitable<Error> handshake(boost::asio::ssl::stream_base::handshake_type side);

    boost::asio::awaitable<Error> write(std::string_view bytes);

    /// Waits for more data of the other node, and appends it to `unread`.
    boost::asio::awaitable<Error> read_more();
    /// The next line, without its end. Nothing if the connection ends or `longest` bytes are read
    /// first.
    boost::asio::awaitable<std::optional<std::string>> read_line(std::size_t longest);
    std::string& unread() { return unread_; }

    template <class Token>
    auto read_some(boost::asio::mutable_buffer room, Token&& token) {
        return secured_ ? secured_->async_read_some(room, std::forward<Token>(token))
                        : tcp_.async_read_some(room, std::forward<Token>(token));
    }
    template <class Token>
    auto write_some(boost::asio::const_buffer bytes, Token&& token) {
        return secured_ ? secured_->async_write_some(bytes, std::forward<Token>(token))
                        : tcp_.async_write_some(bytes, std::forward<Token>(token));
    }

private:
    boost::beast::tcp_stream tcp_;
    const std::shared_ptr<boost::asio::ssl::context> tls_;
    std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> secured_;
    std::string unread_;
};

}  // namespace pulsegate
