#include "server/backend/http_client.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <chrono>
#include <stdexcept>

#include "server/base/clock.h"
#include "server/base/files/whole_file.h"
#include "server/base/text/date.h"
#include "server/base/text/lines.h"
#include "server/base/text/unparsed_http.h"
#include "server/base/version.h"

namespace pulsegate {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// Proxies and firewalls forget connections that are quiet for longer, some without a word.
constexpr Millis longest_idle = 30'000;

using HttpRequest = http::request<http::string_body>;
using HttpAnswer = http::response_parser<http::string_body>;
using TlsStream = asio::ssl::stream<tcp::socket&>;

/// 100, 103 and the like come before the answer (RFC 9110, section 15.2); each has a header of 16
/// KiB at most.
constexpr unsigned most_interim_answers = 10;

bool is_interim(unsigned status) { return status / 100 == 1 && status != 101; }

/// The certificate must be made out to this host, by name or by IP address.
bool expect_host(SSL* ssl, const std::string& host) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return true;
    return SSL_set1_host(ssl, host.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

std::string trouble_with_tls(SSL* ssl, const error_code& error) {
    const auto verified = SSL_get_verify_result(ssl);
    return fmt::format("TLS: {}", verified == X509_V_OK ? error.message()
                                                        : X509_verify_cert_error_string(verified));
}

/// A number of seconds or a date (RFC 9110, section 10.2.3). Nothing if it is neither.
std::optional<std::chrono::seconds> delay_in(std::string_view retry_after) {
    if (const auto date = parse_http_date(retry_after)) {
        const std::chrono::milliseconds left(std::max<Millis>(*date - wall_now(), 0));
        return std::chrono::ceil<std::chrono::seconds>(left);
    }
    unsigned seconds = 0;
    const char* const end = retry_after.data() + retry_after.size();
    const auto read = std::from_chars(retry_after.data(), end, seconds);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return std::chrono::seconds(seconds);
}

HttpRequest request_for(const HttpUrl& url, const HttpCredentials& with, http::verb verb) {
    HttpRequest request(verb, url.target, 11);
    request.set(http::field::host, url.authority());
    request.set(http::field::user_agent, std::string("Pulsegate/") + program_version());
    request.set(http::field::accept, "application/json");
    if (!with.token.empty()) request.set(http::field::authorization, "Bearer " + with.token);
    return request;
}

HttpRequest post_of(const HttpUrl& url, const HttpCredentials& with, const std::string& body,
                    const HttpClient::Fields& fields) {
    HttpRequest request = request_for(url, with, http::verb::post);
    request.set(http::field::content_type, "application/json");
    request.body() = body;
    for (const auto& [name, value] : fields) request.set(name, value);
    request.prepare_payload();
    return request;
}

}  // namespace

struct HttpClient::Call::Connection {
    explicit Connection(asio::io_context& io) : resolver(io), socket(io) {}

    /// Whatever waits for it fails.
    void close() {
        resolver.cancel();
        error_code ignored;
        socket.close(ignored);
    }

    /// Is it closed, or does it say what nobody asked for? Such a word must not become the answer
    /// to the next request. It may have been read from the socket already: Asio reads more than one
    /// TLS record at once, and keeps it where only a read looks.
    bool has_news() {
        error_code error;
        socket.non_blocking(true, error);
        if (error) return true;
        char byte;
        const auto place = asio::buffer(&byte, 1);
        tls ? tls->read_some(place, error) : socket.read_some(place, error);
        return error != asio::error::would_block;
    }

    tcp::resolver resolver;
    tcp::socket socket;
    std::unique_ptr<TlsStream> tls{};  ///< null: bytes go as they are
    Millis idle_since = 0;
};

/// What came back on a connection.
struct HttpClient::Exchange {
    error_code error{};
    bool begun = false;     ///< at least a part of an answer came
    bool reusable = false;  ///< the connection, for another request
    HttpReply reply{};

    /// Had it been closed before the request came?
    bool was_closed() const { return error && !begun; }

    template <class Stream>
    static asio::awaitable<Exchange> on(Stream& stream, const HttpRequest& request,
                                        std::size_t longest_answer) {
        Exchange exchange;
        co_await http::async_write(stream, request,
                                   asio::redirect_error(asio::use_awaitable, exchange.error));
        if (exchange.error) co_return exchange;

        boost::beast::flat_buffer buffer(most_unparsed_http);
        std::optional<HttpAnswer> parser;
        unsigned left = most_interim_answers;
        do {
            parser.emplace();
            parser->header_limit(16 * 1024);
            parser->body_limit(longest_answer);
            co_await http::async_read_header(
                stream, buffer, *parser, asio::redirect_error(asio::use_awaitable, exchange.error));
            exchange.begun |= parser->got_some();
            if (left-- == 0) exchange.error = http::error::header_limit;
        } while (!exchange.error && is_interim(parser->get().result_int()));
        auto& answer = parser->get();
        if (parser->is_header_done()) {
            exchange.reply.status = answer.result_int();
            exchange.reply.retry_after = delay_in(answer[http::field::retry_after]);
        }
        if (exchange.error) co_return exchange;
        co_await http::async_read(stream, buffer, *parser,
                                  asio::redirect_error(asio::use_awaitable, exchange.error));
        if (exchange.error) co_return exchange;
        const bool is_final = exchange.reply.status >= 200;
        exchange.reusable = answer.keep_alive() && buffer.size() == 0 && is_final;
        exchange.reply.body = std::move(answer.body());
        co_return exchange;
    }

    static asio::awaitable<Exchange> on(Connection& connection, const HttpRequest& request,
                                        std::size_t longest_answer) {
        if (connection.tls) co_return co_await on(*connection.tls, request, longest_answer);
        co_return co_await on(connection.socket, request, longest_answer);
    }
};

std::shared_ptr<asio::ssl::context> read_authorities(std::string_view setting,
                                                     const std::string& ca_file) {
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    context->set_verify_mode(asio::ssl::verify_peer);
    error_code error;
    if (ca_file.empty()) {
        context->set_default_verify_paths(error);
    } else {
        const auto file = read_whole_file(setting, ca_file);
        const auto pem = without_byte_order_mark(file.text);
        context->add_certificate_authority(asio::buffer(pem), error);
        if (pem.empty()) error = asio::error::eof;  // Asio takes it for no mistake
    }
    if (error)
        throw std::runtime_error(
            fmt::format("{}: {}: {}; name a PEM file with the certificates that sign the backend's",
                        setting, ca_file.empty() ? "the system's" : ca_file, error.message()));
    return context;
}

void HttpClient::Call::give_up() {
    given_up_ = true;
    if (connection_) connection_->close();
}

void HttpClient::use(std::shared_ptr<const HttpCredentials> credentials) {
    credentials_ = std::move(credentials);
    idle_.clear();
}

asio::awaitable<HttpReply> HttpClient::post(Call& call, const std::string& body,
                                            const Fields& fields, bool is_idempotent) {
    auto with = credentials_;
    HttpRequest request = post_of(url_, *with, body, fields);
    co_return co_await send(call, std::move(request), std::move(with), is_idempotent);
}

asio::awaitable<HttpReply> HttpClient::get(Call& call) {
    auto with = credentials_;
    HttpRequest request = request_for(url_, *with, http::verb::get);
    co_return co_await send(call, std::move(request), std::move(with), true);
}

template <class Request>
asio::awaitable<HttpReply> HttpClient::send(Call& call, Request request,
                                            std::shared_ptr<const HttpCredentials> with,
                                            bool is_idempotent) {
    call.connection_ = take_idle();
    if (call.connection_) {
        auto exchange = co_await Exchange::on(*call.connection_, request, longest_answer_);
        if (!exchange.was_closed() || !is_idempotent || call.given_up_)
            co_return finish(call, std::move(exchange), with);
    }
    call.connection_ = std::make_shared<Connection>(io_);
    HttpReply failed;
    failed.trouble = co_await open(call, *with);
    if (!failed.trouble.empty()) co_return failed;
    auto exchange = co_await Exchange::on(*call.connection_, request, longest_answer_);
    co_return finish(call, std::move(exchange), with);
}

/// Returns what is in the way, or nothing.
asio::awaitable<std::string> HttpClient::open(Call& call, const HttpCredentials& with) {
    const auto connection = call.connection_;
    const std::string port = std::to_string(url_.port);
    error_code error;
    const auto places = co_await connection->resolver.async_resolve(
        url_.host, port, tcp::resolver::numeric_service,
        asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return fmt::format("{}: {}", url_.host, error.message());
    if (call.given_up_) co_return "given up";  // connecting would open the socket again
    co_await asio::async_connect(connection->socket, places,
                                 asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return fmt::format("connect: {}", error.message());
    connection->socket.set_option(tcp::no_delay(true), error);
    if (!url_.tls) co_return "";

    connection->tls = std::make_unique<TlsStream>(connection->socket, *with.authorities);
    SSL* const ssl = connection->tls->native_handle();
    if (!expect_host(ssl, url_.host)) co_return "TLS: the host has no valid name";
    co_await connection->tls->async_handshake(asio::ssl::stream_base::client,
                                              asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return trouble_with_tls(ssl, error);
    co_return "";
}

/// Keeps the connection if it is of use to others.
HttpReply HttpClient::finish(Call& call, Exchange exchange,
                             const std::shared_ptr<const HttpCredentials>& with) {
    auto connection = std::move(call.connection_);
    if (exchange.error == http::error::end_of_stream)
        exchange.reply.trouble = "it closed the connection without an answer";
    else if (exchange.error)
        exchange.reply.trouble = "its answer: " + exchange.error.message();
    else if (exchange.reusable && !call.given_up_ && with == credentials_)
        keep(std::move(connection));
    return std::move(exchange.reply);
}

// -- idle connections --

/// The one that was used last; null if there is none.
std::shared_ptr<HttpClient::Connection> HttpClient::take_idle() {
    drop_old();
    while (!idle_.empty()) {
        auto connection = std::move(idle_.back());
        idle_.pop_back();
        if (!connection->has_news()) return connection;
    }
    return nullptr;
}

void HttpClient::keep(std::shared_ptr<Connection> connection) {
    connection->idle_since = monotonic_now();
    idle_.push_back(std::move(connection));
    drop_old();
}

void HttpClient::drop_old() {
    const Millis since = monotonic_now() - longest_idle;
    while (!idle_.empty() && idle_.front()->idle_since < since) idle_.pop_front();
}

}  // namespace pulsegate
