#include "server/cluster/link/link_socket.h"

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace pulsegate {

namespace {

namespace asio = boost::asio;

}  // namespace

LinkSocket::LinkSocket(boost::beast::tcp_stream tcp, std::shared_ptr<asio::ssl::context> tls)
    : tcp_(std::move(tcp)), tls_(std::move(tls)) {
    if (tls_) secured_.emplace(tcp_, *tls_);
}

asio::awaitable<LinkSocket::Error> LinkSocket::handshake(
    asio::ssl::stream_base::handshake_type side) {
    Error error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    if (secured_) co_await secured_->async_handshake(side, token);
    co_return error;
}

asio::awaitable<LinkSocket::Error> LinkSocket::write(std::string_view bytes) {
    Error error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    while (!bytes.empty() && !error) {
        const asio::const_buffer rest = asio::buffer(bytes);
        bytes.remove_prefix(co_await write_some(rest, token));
    }
    co_return error;
}

asio::awaitable<LinkSocket::Error> LinkSocket::read_more() {
    std::array<char, 256> part{};
    const asio::mutable_buffer room = asio::buffer(part);
    Error error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const std::size_t got = co_await read_some(room, token);
    unread_.append(part.data(), got);
    co_return error;
}

asio::awaitable<std::optional<std::string>> LinkSocket::read_line(std::size_t longest) {
    std::size_t end = unread_.find('\n');
    while (end == std::string::npos && unread_.size() <= longest) {
        asio::awaitable<Error> reading = read_more();
        if (co_await std::move(reading)) break;
        end = unread_.find('\n');
    }
    std::optional<std::string> line;
    if (end < longest) {
        line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
    }
    co_return line;
}

}  // namespace pulsegate
