#include "server/commands/ctl/gateway_client.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "server/base/files/local_socket_path.h"
#include "server/base/text/unparsed_http.h"
#include "server/commands/ctl/timed_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
namespace web = boost::beast::http;
using asio::ip::tcp;
using local = asio::local::stream_protocol;
using Request = web::request<web::string_body>;

/// The parts of http://HOST:PORT.
struct ApiUrl {
    bool has_tls;
    std::string authority;
    std::string host;
    std::string port;
};

ApiUrl parse_api_url(std::string_view text) {
    const auto fail = [text] {
        return std::runtime_error(
            fmt::format("--url: '{}' is not a URL such as http://127.0.0.1:8080", text));
    };
    const bool has_tls = text.starts_with("https://");
    if (!has_tls && !text.starts_with("http://")) throw fail();
    std::string_view rest = text.substr(has_tls ? 8 : 7);
    if (rest.ends_with('/')) rest.remove_suffix(1);
    if (rest.empty() || rest.find('/') != rest.npos) throw fail();
    ApiUrl url{.has_tls = has_tls,
               .authority = std::string(rest),
               .host = {},
               .port = has_tls ? "443" : "8080"};
    const auto colon = rest.rfind(':');
    if (colon != rest.npos && rest.find(']', colon) == rest.npos) {
        url.port = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
    }
    if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
    if (rest.empty()) throw fail();
    url.host = rest;
    return url;
}

void connect_to_file(TimedSocket<local>& socket, const std::string& file) {
    const LocalSocketPath path(file);
    boost::system::error_code error;
    socket.connect(local::endpoint(path.short_path()), error);
    if (error) throw boost::system::system_error(error);
}

/// Tries all addresses of the host.
void connect_to_host(TimedSocket<tcp>& socket, asio::io_context& io, const ApiUrl& url) {
    boost::system::error_code error;
    for (const auto& place : tcp::resolver(io).resolve(url.host, url.port)) {
        socket.connect(place.endpoint(), error);
        if (!error) return;
    }
    throw boost::system::system_error(error);
}

/// The time for an answer; nothing: there is no limit. A connection, and the gateway's part of TLS,
/// have the usual limit.
using AnswerTime = std::optional<std::chrono::seconds>;

/// Sends the request, and gives `read` the stream to read the answer from.
template <class Read>
void exchange(const GatewayPlace& place, Request& request, AnswerTime time, Read read) {
    asio::io_context io;
    const auto ask = [&](auto& socket, auto& stream) {
        socket.wait_at_most(time);
        web::write(stream, request);
        read(stream);
    };
    if (!place.socket.empty()) {
        TimedSocket<local> socket(io);
        connect_to_file(socket, place.socket);
        return ask(socket, socket);
    }
    const ApiUrl url = parse_api_url(place.url);
    request.set(web::field::host, url.authority);
    if (!url.has_tls) {
        TimedSocket<tcp> socket(io);
        connect_to_host(socket, io, url);
        return ask(socket, socket);
    }
    asio::ssl::context authorities(asio::ssl::context::tls_client);
    if (place.ca_file.empty())
        authorities.set_default_verify_paths();
    else
        authorities.load_verify_file(place.ca_file);
    asio::ssl::stream<TimedSocket<tcp>> stream(io, authorities);
    stream.set_verify_mode(asio::ssl::verify_peer);
    stream.set_verify_callback(asio::ssl::host_name_verification(url.host));
    SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str());
    connect_to_host(stream.next_layer(), io, url);
    stream.handshake(asio::ssl::stream_base::client);
    ask(stream.next_layer(), stream);
}

Request request_to(const GatewayPlace& place, web::verb verb, std::string_view target,
                   std::string_view body) {
    Request request(verb, {target.data(), target.size()}, 11);
    request.set(web::field::host, "localhost");
    request.set(web::field::user_agent, "pulsegate ctl");
    if (!place.token.empty()) request.set(web::field::authorization, "Bearer " + place.token);
    if (!body.empty()) request.set(web::field::content_type, "application/json");
    request.body() = body;
    if (!body.empty() || verb == web::verb::post || verb == web::verb::put)
        request.prepare_payload();
    return request;
}

[[noreturn]] void fail(const GatewayPlace& place, const boost::system::system_error& error) {
    const auto why = fmt::format(
        "{}: {}; name a running gateway: --socket FILE (admin.sock in its data folder), or --url "
        "http://HOST:PORT",
        place.text(),
        error.code() == asio::error::timed_out ? "it does not answer" : error.code().message());
    if (error.code() == asio::error::connection_refused ||
        error.code() == boost::system::errc::no_such_file_or_directory)
        throw NobodyListens(why);
    throw GatewayAway(why);
}

constexpr std::uint64_t most_answer_bytes = 256 * 1024 * 1024;

GatewayClient::Answer whole_answer(const GatewayPlace& place, Request request,
                                   AnswerTime time) try {
    GatewayClient::Answer answer;
    exchange(place, request, time, [&](auto& stream) {
        boost::beast::flat_buffer buffer(most_unparsed_http);
        web::response_parser<web::string_body> parser;
        parser.body_limit(most_answer_bytes);
        web::read(stream, buffer, parser);
        answer = {.status = parser.get().result_int(), .text = std::move(parser.get().body())};
    });
    return answer;
} catch (const boost::system::system_error& error) {
    fail(place, error);
}

}  // namespace

boost::json::value GatewayClient::Answer::json() const {
    boost::system::error_code error;
    auto value = boost::json::parse(text, error);
    if (error) throw GatewayAway("the answer is not JSON: is this a gateway's HTTP API?");
    return value;
}

std::string GatewayClient::Answer::refusal() const {
    boost::system::error_code error;
    const auto value = boost::json::parse(text, error);
    const auto* const object = error ? nullptr : value.if_object();
    const auto* const why = object ? object->if_contains("error") : nullptr;
    if (why && why->is_string()) return std::string(why->get_string());
    return fmt::format("the gateway answers {}", status);
}

GatewayClient::Answer GatewayClient::get(std::string_view target,
                                         std::chrono::seconds longest_wait) const {
    return whole_answer(place_, request_to(place_, Verb::get, target, {}), longest_wait);
}

GatewayClient::Answer GatewayClient::ask(Verb verb, std::string_view target,
                                         std::string_view body) const {
    return whole_answer(place_, request_to(place_, verb, target, body), std::nullopt);
}

GatewayClient::Answer GatewayClient::follow(std::string_view target,
                                            const std::function<bool(std::string_view)>& line) const
    try {
    Answer answer;
    Request request = request_to(place_, Verb::get, target, {});
    exchange(place_, request, std::nullopt, [&](auto& stream) {
        boost::beast::flat_buffer buffer(most_unparsed_http);
        web::response_parser<web::string_body> parser;
        parser.body_limit(boost::none);
        boost::system::error_code error;
        std::string& text = parser.get().body();
        web::read_header(stream, buffer, parser);
        answer.status = parser.get().result_int();
        while (!parser.is_done() && !error) {
            web::read_some(stream, buffer, parser, error);
            if (!answer.ok()) continue;
            for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
                if (!line(std::string_view(text).substr(0, end))) return;
                text.erase(0, end + 1);
            }
        }
        answer.text = std::move(text);
    });
    return answer;
} catch (const boost::system::system_error& error) {
    fail(place_, error);
}

}  // namespace pulsegate
