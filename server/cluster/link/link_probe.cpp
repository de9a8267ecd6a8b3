#include "server/cluster/link/link_probe.h"

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <string_view>

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// The line that a node sends, or "".
template <class Stream>
asio::awaitable<std::string> read_hello(Stream& stream) {
    std::string line;
    std::array<char, longest_link_hello> part{};
    const asio::mutable_buffer room = asio::buffer(part);
    while (line.find('\n') == std::string::npos && line.size() <= longest_link_hello) {
        error_code error;
        auto token = asio::redirect_error(asio::use_awaitable, error);
        const std::size_t got = co_await stream.async_read_some(room, token);
        line.append(part.data(), got);
        if (error) break;
    }
    const std::size_t end = line.find('\n');
    co_return end == std::string::npos ? std::string() : line.substr(0, end);
}

asio::awaitable<std::string> read_secured_hello(boost::beast::tcp_stream& stream,
                                                asio::ssl::context& tls) {
    asio::ssl::stream<boost::beast::tcp_stream&> secured(stream, tls);
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await secured.async_handshake(asio::ssl::stream_base::client, token);
    if (error) co_return std::string();
    std::string line = co_await read_hello(secured);
    co_return line;
}

}  // namespace

asio::awaitable<LinkReport> probe_link(std::string address, std::shared_ptr<asio::ssl::context> tls,
                                       std::chrono::milliseconds patience) {
    LinkReport report;
    const auto [host, port] = split_link_address(address);
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::ip::tcp::resolver resolver(executor);
    boost::beast::tcp_stream stream(executor);
    stream.expires_after(patience);
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const auto places = co_await resolver.async_resolve(host, port, token);
    if (error) co_return report;
    co_await stream.async_connect(places, token);
    if (error == asio::error::connection_refused) report.state = LinkReport::State::refused;
    if (error) co_return report;
    std::string line;
    if (tls)
        line = co_await read_secured_hello(stream, *tls);
    else
        line = co_await read_hello(stream);
    const std::optional<LinkHello> hello = parse_link_hello(line);
    if (!hello) co_return report;
    report.state = LinkReport::State::answered;
    report.hello = *hello;
    co_return report;
}

}  // namespace pulsegate
