#include "server/http/forwarding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "server/base/files/socket_pair.h"
#include "server/base/text/unparsed_http.h"
#include "server/cluster/membership.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using local = asio::local::stream_protocol;

/// A request never waits longer than this at the home.
constexpr auto reply_patience = std::chrono::seconds(90);

/// How often this node looks whether the home is still there.
constexpr auto look_at_home_pause = std::chrono::seconds(1);

/// This node's end of the connection to the home.
struct WayToHome {
    explicit WayToHome(local::socket socket)
        : stream(std::move(socket)), look(stream.get_executor()) {}

    beast::basic_stream<local> stream;
    asio::steady_timer look;
    beast::flat_buffer unread{most_unparsed_http};
};

/// The request for the home. HEAD becomes GET, because the server needs the length of the body.
std::string request_text(const ApiRequest& request) {
    const auto method = request.method == http::verb::head ? http::verb::get : request.method;
    const beast::string_view name = to_string(method);
    std::string text =
        fmt::format("{} {}", std::string_view(name.data(), name.size()), request.path);
    if (!request.encoded_query.empty()) text.append("?").append(request.encoded_query);
    text +=
        fmt::format(" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n",
                    request.body.size());
    const auto add = [&](std::string_view field, std::string_view value) {
        if (!value.empty()) text += fmt::format("{}: {}\r\n", field, value);
    };
    add("Authorization", request.authorization);
    add("Accept", request.accept);
    add("Last-Event-ID", request.last_event_id);
    if (request.idempotency_key)
        text += fmt::format("Idempotency-Key: {}\r\n", *request.idempotency_key);
    return text.append("\r\n").append(request.body);
}

/// True for fields that belong to one connection, and for fields that the server adds to each
/// reply.
bool is_of_one_hop(http::field field) {
    return field == http::field::connection || field == http::field::content_length ||
           field == http::field::content_type || field == http::field::server;
}

ApiReply reply_of(const http::response<http::string_body>& answer) {
    ApiReply reply{.status = answer.result()};
    reply.body = answer.body();
    reply.content_type = std::string(answer[http::field::content_type]);
    for (const auto& field : answer.base())
        if (!is_of_one_hop(field.name()))
            reply.fields.emplace_back(std::string(field.name_string()), std::string(field.value()));
    return reply;
}

bool is_alive_node(const ClusterView& view, const std::string& incarnation) {
    return std::ranges::any_of(view.nodes, [&](const ClusterView::Node& node) {
        return node.incarnation == incarnation && !node.is_condemned;
    });
}

/// Closes the connection when the home is condemned. A home that stands still does not close it.
void end_without_home(const std::shared_ptr<WayToHome>& way, const Membership& cluster,
                      const std::string& home) {
    way->look.expires_after(look_at_home_pause);
    way->look.async_wait([weak = std::weak_ptr(way), &cluster, home](error_code error) {
        const auto still = weak.lock();
        if (error || !still) return;
        if (is_alive_node(cluster.view(), home)) return end_without_home(still, cluster, home);
        still->stream.close();
    });
}

/// The next part of a reply that ends with its connection.
asio::awaitable<std::string> next_piece(std::shared_ptr<WayToHome> way) {
    std::string piece = beast::buffers_to_string(way->unread.data());
    way->unread.consume(way->unread.size());
    if (!piece.empty()) co_return piece;
    std::array<char, 4096> bytes{};
    error_code error;
    way->stream.expires_after(reply_patience);
    const std::size_t got = co_await way->stream.async_read_some(
        asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
    co_return std::string(bytes.data(), got);
}

ApiReply no_answer(const std::string& why) {
    return api_refusal(ApiError::home_silent,
                       fmt::format("{}: a change may have happened nevertheless; try again", why));
}

/// Waits for the home's reply to the request.
asio::awaitable<ApiReply> await_reply(std::shared_ptr<WayToHome> way, std::string home) {
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    co_await http::async_read_header(way->stream, way->unread, parser, token);
    const bool is_stream = !error && !parser.content_length() && !parser.chunked();
    if (is_stream) {
        ApiReply reply = reply_of(parser.get());
        reply.stream = [way] { return next_piece(way); };
        co_return reply;
    }
    if (!error) co_await http::async_read(way->stream, way->unread, parser, token);
    if (error)
        co_return no_answer(fmt::format("node {} owns the data, and has not answered", home));
    co_return reply_of(parser.get());
}

}  // namespace

asio::awaitable<ApiReply> Forwarding::answer(const ApiRequest& request, std::string token) const {
    const ClusterView view = cluster_.view();
    const ClusterView::Node* const home = other_owner(view);
    if (!home)
        co_return api_refusal(ApiError::standby,
                              "no node serves at the moment: this one stands by; try again later");
    const std::string name = home->name;
    const std::string incarnation = home->incarnation;
    auto [ours, theirs] = socket_pair();
    if (!ours) co_return no_answer("this node has no descriptors left");
    cluster_.carry(
        {.address = home->link_address, .incarnation = home->incarnation},
        {.address = request.is_local ? "" : request.address.text(), .token = std::move(token)},
        std::move(theirs));
    const auto way = std::make_shared<WayToHome>(local::socket(io_, local(), ours.release()));
    end_without_home(way, cluster_, incarnation);
    const std::string text = request_text(request);
    error_code error;
    way->stream.expires_after(reply_patience);
    co_await asio::async_write(way->stream, asio::buffer(text),
                               asio::redirect_error(asio::use_awaitable, error));
    asio::awaitable<ApiReply> reading = await_reply(way, name);
    co_return co_await std::move(reading);
}

}  // namespace pulsegate
