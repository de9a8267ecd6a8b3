#include "server/cluster/link/carried_request.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "server/base/text/url.h"
#include "server/cluster/link/line_words.h"
#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using local_stream = asio::local::stream_protocol;

constexpr std::string_view request_magic = "pulsegate-http";
constexpr std::string_view request_version = "1";
constexpr std::string_view no_word = "-";

/// Encodes "-" as %2D, because percent_encoded does not change it.
std::string word_of(std::string_view text) {
    if (text.empty()) return std::string(no_word);
    return text == no_word ? "%2D" : percent_encoded(text);
}

std::optional<std::string> decoded_word(std::string_view word) {
    return word == no_word ? std::string() : percent_decoded(word);
}

/// The two sockets between which a request is carried.
struct RequestWay {
    RequestWay(std::shared_ptr<LinkSocket> to_node, local_stream::socket here)
        : link(std::move(to_node)), end(std::move(here)) {}

    const std::shared_ptr<LinkSocket> link;
    local_stream::socket end;

    void close() {
        link->tcp().close();
        error_code ignored;
        end.close(ignored);
    }
};

constexpr std::size_t carried_at_once = std::size_t{16} << 10;

asio::awaitable<void> carry_to_link(std::shared_ptr<RequestWay> way) {
    std::array<char, carried_at_once> bytes{};
    const asio::mutable_buffer room = asio::buffer(bytes);
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    while (!error) {
        const std::size_t got = co_await way->end.async_read_some(room, token);
        if (error) break;
        asio::awaitable<error_code> writing = way->link->write({bytes.data(), got});
        error = co_await std::move(writing);
    }
    way->close();
}

asio::awaitable<void> carry_from_link(std::shared_ptr<RequestWay> way) {
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    std::string bytes = std::move(way->link->unread());
    while (!error) {
        co_await asio::async_write(way->end, asio::buffer(bytes), token);
        if (error) break;
        bytes.resize(carried_at_once);
        const asio::mutable_buffer room = asio::buffer(bytes);
        bytes.resize(co_await way->link->read_some(room, token));
    }
    way->close();
}

/// Makes the connection end if the other node vanishes while nothing is sent.
void end_if_silent(asio::ip::tcp::socket& socket) {
    constexpr int on = 1;
    constexpr int idle_seconds = 10;
    constexpr int patience = 30'000;  // milliseconds
    const int fd = socket.native_handle();
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

}  // namespace

std::string to_request_line(const CarriedRequest& request) {
    return fmt::format("{} {} {} {} {} {}\n", request_magic, request_version,
                       request.node.incarnation, request.node.birth, word_of(request.address),
                       word_of(request.token));
}

std::optional<CarriedRequest> parse_request_line(std::string_view line) {
    if (next_word(line) != request_magic || next_word(line) != request_version) return {};
    CarriedRequest request;
    request.node.incarnation = next_word(line);
    request.node.birth = next_word(line);
    const auto address = decoded_word(next_word(line));
    const auto token = decoded_word(next_word(line));
    if (request.node.incarnation.empty() || !address || !token) return {};
    request.address = *address;
    request.token = *token;
    return request;
}

asio::awaitable<void> carry(std::shared_ptr<LinkSocket> link, UniqueFd end) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    link->tcp().expires_never();
    end_if_silent(link->tcp().socket());
    const auto way = std::make_shared<RequestWay>(
        std::move(link), local_stream::socket(executor, local_stream(), end.release()));
    asio::co_spawn(executor, carry_from_link(way), asio::detached);
    asio::awaitable<void> carrying = carry_to_link(way);
    co_await std::move(carrying);
}

}  // namespace pulsegate
