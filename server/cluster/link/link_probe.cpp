#include "server/cluster/link/link_probe.h"

#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

}  // namespace

asio::awaitable<LinkVisit> visit_link(std::string address, std::shared_ptr<asio::ssl::context> tls,
                                      std::chrono::milliseconds patience) {
    LinkVisit visit;
    const auto [host, port] = split_link_address(address);
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::ip::tcp::resolver resolver(executor);
    boost::beast::tcp_stream stream(executor);
    stream.expires_after(patience);
    auto token = asio::redirect_error(asio::use_awaitable, visit.error);
    const auto places = co_await resolver.async_resolve(host, port, token);
    if (visit.error) co_return visit;
    co_await stream.async_connect(places, token);
    if (visit.error == asio::error::connection_refused)
        visit.report.state = LinkReport::State::refused;
    if (visit.error) co_return visit;
    visit.socket = std::make_shared<LinkSocket>(std::move(stream), std::move(tls));
    asio::awaitable<error_code> handshake = visit.socket->handshake(asio::ssl::stream_base::client);
    visit.error = co_await std::move(handshake);
    if (visit.error) co_return visit;
    asio::awaitable<std::optional<std::string>> reading =
        visit.socket->read_line(longest_link_hello);
    const std::optional<std::string> line = co_await std::move(reading);
    const std::optional<LinkHello> hello = parse_link_hello(line.value_or(""));
    if (!hello) co_return visit;
    visit.report.state = LinkReport::State::answered;
    visit.report.hello = *hello;
    co_return visit;
}

asio::awaitable<LinkReport> probe_link(std::string address, std::shared_ptr<asio::ssl::context> tls,
                                       LinkHello self, std::chrono::milliseconds patience) {
    asio::awaitable<LinkVisit> visiting = visit_link(std::move(address), std::move(tls), patience);
    LinkVisit visit = co_await std::move(visiting);
    if (visit.report.state == LinkReport::State::answered) {
        const std::string line = to_line(self);
        asio::awaitable<error_code> writing = visit.socket->write(line);
        co_await std::move(writing);
    }
    co_return std::move(visit.report);
}

}  // namespace pulsegate
