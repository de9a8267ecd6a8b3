#include "server/http/serving/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"
#include "server/base/files/local_socket_path.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/text/date.h"
#include "server/base/text/unparsed_http.h"
#include "server/base/version.h"
#include "server/http/serving/http_connections.h"
#include "server/http/serving/request_framing.h"
#include "server/limits/address.h"
#include "server/web/request_target.h"

namespace pulsegate {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using local = asio::local::stream_protocol;
using namespace std::chrono_literals;

namespace {

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;
using RequestParser = http::request_parser<http::string_body>;

constexpr auto client_timeout = 10s;
/// The time for the header of a new connection's first request. A health check has its header
/// ready.
constexpr auto first_header_timeout = 2s;
/// The time for the end of TLS, which a client need not wait for.
constexpr auto tls_shutdown_timeout = 1s;
/// The time for a client to notice that its request is refused, and to stop sending it.
constexpr auto refused_timeout = 5s;
/// Room for a thousand names; Beast throws at a field above 64 KiB.
constexpr std::uint32_t most_header_bytes = 60 * 1024;

std::string_view as_view(beast::string_view text) { return {text.data(), text.size()}; }

/// A repeated field counts as an empty key, which is not valid.
std::optional<std::string_view> idempotency_key(const Request& request) {
    constexpr auto field = "Idempotency-Key";
    switch (request.count(field)) {
        case 0: return std::nullopt;
        case 1: return as_view(request[field]);
        default: return "";
    }
}

ApiRequest api_request(const HttpConnection& client, const Request& request) {
    const RequestTarget target = request_target(request);
    return {.method = request.method(),
            .path = target.path,
            .encoded_query = target.encoded_query,
            .body = request.body(),
            .address = client.from.address,
            .token = client.from.token,
            .node = client.from.node,
            .is_let_in = client.from.is_let_in,
            .authorization = as_view(request[http::field::authorization]),
            .host = target.host,
            .origin = as_view(request[http::field::origin]),
            .fetch_site = as_view(request["Sec-Fetch-Site"]),
            .fetch_dest = as_view(request["Sec-Fetch-Dest"]),
            .accept = as_view(request[http::field::accept]),
            .last_event_id = as_view(request["Last-Event-ID"]),
            .idempotency_key = idempotency_key(request),
            .is_local = client.from.is_local};
}

Response response_to(const Request& request, ApiReply reply) {
    Response response(reply.status, request.version());
    response.set(http::field::date, http_date(wall_now()));
    response.set(http::field::server, std::string("Pulsegate/") + program_version());
    response.set(http::field::content_type, reply.content_type);
    response.set(http::field::cache_control, "no-store");
    response.keep_alive(request.keep_alive());
    if (!reply.body.ends_with('\n')) reply.body += '\n';  // or it would share a line with a prompt
    // For HEAD too: the length of GET's body (RFC 9110, 8.6).
    response.content_length(reply.body.size());
    if (request.method() != http::verb::head) response.body() = std::move(reply.body);
    for (const auto& [field, value] : reply.fields) response.set(field, value);
    return response;
}

ApiReply too_many_connections() {
    auto reply = api_refusal(
        ApiError::too_many_connections,
        "too many connections: the gateway answers only /healthz, /readyz and /metrics");
    reply.fields.emplace_back("Retry-After", "1");
    return reply;
}

/// True if the client should be told of the error.
bool is_bad_request(const boost::system::error_code& error) {
    return error && error.category() == http::make_error_code(http::error::bad_method).category() &&
           error != http::error::end_of_stream && error != http::error::partial_message;
}

ApiReply refusal_of(const boost::system::error_code& error) {
    const bool is_long = error == http::error::body_limit;
    return api_refusal(is_long ? ApiError::body_too_large : ApiError::bad_http, error.message());
}

/// The reason why there is no usable request.
struct Failure {
    boost::system::error_code error{};  ///< error of the connection
    std::optional<ApiReply> refusal{};  ///< the last answer to the client
};

Failure failure_of(const boost::system::error_code& error) {
    if (is_bad_request(error)) return {.error = {}, .refusal = refusal_of(error)};
    return {.error = error, .refusal = std::nullopt};
}

}  // namespace

struct HttpServer::Impl {
    explicit Impl(Handler asked) : handler(std::move(asked)) {}

    /// Reads one request, up to its end.
    asio::awaitable<Failure> read(HttpConnection& client, beast::flat_buffer& buffer,
                                  RequestParser& parser, std::chrono::seconds header_timeout) {
        boost::system::error_code error;
        parser.header_limit(most_header_bytes);
        parser.body_limit(boost::none);  // the header decides
        client.stream.expires_after(header_timeout);
        co_await http::async_read_header(client.stream, buffer, parser,
                                         asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return failure_of(error);
        if (auto refusal = judge(client, parser))
            co_return Failure{.error = {}, .refusal = std::move(refusal)};
        if (parser.is_done()) co_return Failure{};
        if (expects_continue(parser.get())) {
            if (auto refusal = handler.refusal(api_request(client, parser.get())))
                co_return Failure{.error = {}, .refusal = std::move(refusal)};
            static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
            if (buffer.size() == 0) error = co_await write(client, go_on);
            if (error) co_return failure_of(error);
            connections.enter(client, HttpConnection::State::reads);
        }
        const auto header = parser.get().base();  // fields after the body are not part of it
        client.stream.expires_after(client_timeout);
        co_await http::async_read(client.stream, buffer, parser,
                                  asio::redirect_error(asio::use_awaitable, error));
        parser.get().base() = header;
        co_return failure_of(error);
    }

    /// Decides by the header alone. Nothing if the body may be read.
    std::optional<ApiReply> judge(const HttpConnection& client, RequestParser& parser) const {
        if (const auto fault = framing_fault(parser.get()); !fault.empty())
            return api_refusal(ApiError::bad_http, fault);
        const ApiRequest request = api_request(client, parser.get());
        if (client.from.is_spare && !handler.is_probe(request)) return too_many_connections();
        const std::size_t most_body = handler.most_body_bytes(request);
        if (parser.content_length().value_or(0) > most_body)
            return refusal_of(make_error_code(http::error::body_limit));
        parser.body_limit(most_body);
        return std::nullopt;
    }

    /// Writes all bytes. A client that reads a part from time to time gets as much time as it
    /// needs.
    asio::awaitable<boost::system::error_code> write(HttpConnection& client,
                                                     std::string_view bytes) {
        boost::system::error_code error;
        while (!bytes.empty() && !error) {
            connections.enter(client, HttpConnection::State::writes);
            client.stream.expires_after(client_timeout);
            bytes.remove_prefix(co_await client.stream.async_write_some(
                asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error)));
        }
        co_return error;
    }

    asio::awaitable<boost::system::error_code> write(HttpConnection& client,
                                                     const Response& response) {
        boost::system::error_code error;
        http::response_serializer<http::string_body> serializer(response);
        while (!serializer.is_done() && !error) {
            connections.enter(client, HttpConnection::State::writes);
            client.stream.expires_after(client_timeout);
            co_await http::async_write_some(client.stream, serializer,
                                            asio::redirect_error(asio::use_awaitable, error));
        }
        co_return error;
    }

    asio::awaitable<ApiReply> answer(const HttpConnection& client, const Request& request) {
        const ApiRequest asked = api_request(client, request);
        co_return co_await handler.answer(asked);
    }

    /// Sends a stream. Its length is not known in advance, so it ends with the connection.
    asio::awaitable<void> send_stream(HttpConnection& client, const Request& request,
                                      ApiReply reply) {
        const auto next = std::move(reply.stream);
        const Response like = response_to(request, std::move(reply));
        http::response<http::empty_body> head(like.base());
        head.content_length(boost::none);
        head.keep_alive(false);
        http::response_serializer<http::empty_body> serializer(head);
        boost::system::error_code error;
        client.stream.expires_after(client_timeout);
        co_await http::async_write_header(client.stream, serializer,
                                          asio::redirect_error(asio::use_awaitable, error));
        while (!error && request.method() != http::verb::head) {
            connections.enter(client, HttpConnection::State::answers);
            const std::string piece = co_await next();
            if (piece.empty()) break;
            error = co_await write(client, piece);
        }
    }

    /// False if the client has not done its part in time. Meanwhile the connection counts as
    /// reading, so it gives up its place if places are short.
    asio::awaitable<bool> shake_hands(HttpConnection& client) {
        if (!client.stream.begin_tls(new_tls_session)) co_return false;
        boost::system::error_code error;
        client.stream.expires_after(first_header_timeout);
        co_await client.stream.async_handshake(asio::redirect_error(asio::use_awaitable, error));
        co_return !error;
    }

    asio::awaitable<void> shut_down_tls(HttpConnection& client) {
        boost::system::error_code ignored;
        if (client.stream.has_tls()) {
            client.stream.expires_after(tls_shutdown_timeout);
            co_await client.stream.async_tls_shutdown(
                asio::redirect_error(asio::use_awaitable, ignored));
        }
        client.stream.socket().shutdown(HttpProtocol::socket::shutdown_send, ignored);
    }

    /// If input is left when the socket closes, the kernel resets the connection, and the client
    /// may lose the answer (RFC 9112, 9.6).
    asio::awaitable<void> discard_input(HttpConnection& client, beast::flat_buffer& buffer) {
        connections.enter(client, HttpConnection::State::reads);
        client.stream.expires_after(refused_timeout);
        boost::system::error_code error;
        while (!error) {
            buffer.clear();
            co_await client.stream.async_read_raw(buffer.prepare(buffer.max_size()),
                                                  asio::redirect_error(asio::use_awaitable, error));
        }
    }

    asio::awaitable<void> serve(HttpProtocol::socket socket, HttpCaller from) {
        HttpConnection client(std::move(socket), from);
        connections.add(client);
        if (from.has_tls && !co_await shake_hands(client)) co_return;
        beast::flat_buffer buffer(most_unparsed_http);
        std::chrono::seconds header_timeout = first_header_timeout;
        bool goes_on = true;
        bool is_refused = false;
        while (goes_on) {
            RequestParser parser;
            Failure failure = co_await read(client, buffer, parser, header_timeout);
            if (failure.error) break;
            connections.enter(client, HttpConnection::State::answers);
            is_refused = failure.refusal.has_value();
            ApiReply reply;
            if (is_refused)
                reply = *std::move(failure.refusal);
            else
                reply = co_await answer(client, parser.get());
            if (handler.answered) handler.answered(api_request(client, parser.get()), reply.status);
            if (reply.stream) {
                co_await send_stream(client, parser.get(), std::move(reply));
                break;
            }
            Response response = response_to(parser.get(), std::move(reply));
            if (is_refused || from.is_spare) response.keep_alive(false);
            const auto error = co_await write(client, response);
            goes_on = !error && response.keep_alive();
            connections.enter(client, HttpConnection::State::reads);
            header_timeout = client_timeout;
        }
        co_await shut_down_tls(client);
        if (is_refused) co_await discard_input(client, buffer);
    }

    /// Nothing if there is no place for the connection; then it is closed.
    std::optional<HttpCaller> admit(const tcp::socket& socket, bool has_tls) {
        boost::system::error_code error;
        const auto peer = socket.remote_endpoint(error);
        if (error) return std::nullopt;  // the client has gone
        const Address address(peer.address());
        const auto place = connections.make_room(address);
        if (place == HttpConnections::Place::none) return std::nullopt;
        return HttpCaller{.address = address,
                          .is_spare = place == HttpConnections::Place::spare,
                          .has_tls = has_tls};
    }
    std::optional<HttpCaller> admit(const local::socket&, bool) const {
        if (!connections.has_local_place()) return std::nullopt;
        return HttpCaller{.is_local = true};
    }

    void accept_locally(const std::string& path, local::acceptor acceptor) {
        local_path = path;
        local_acceptor.emplace(std::move(acceptor));
        asio::co_spawn(io, accept_from(*local_acceptor, false), asio::detached);
    }

    template <class Acceptor>
    asio::awaitable<void> accept_from(Acceptor& acceptor, bool has_tls) {
        asio::steady_timer pause(io);
        while (true) {
            boost::system::error_code error;
            auto socket =
                co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
            if (error == asio::error::operation_aborted) co_return;
            if (error) {  // out of descriptors, most likely: don't spin
                spdlog::error("HTTP API: accept: {}", error.message());
                pause.expires_after(1s);
                co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
                continue;
            }
            const auto caller = admit(socket, has_tls);
            if (caller) begin(std::move(socket), *caller);
        }
    }

    void begin(HttpProtocol::socket socket, HttpCaller caller) {
        asio::co_spawn(io, serve(std::move(socket), std::move(caller)),
                       [](const std::exception_ptr& failed) {
                           try {
                               if (failed) std::rethrow_exception(failed);
                           } catch (const std::exception& trouble) {
                               log_limited(spdlog::level::err, "HTTP API: a request failed: {}",
                                           trouble.what());
                           }
                       });
    }

    /// A client that no node has admitted is served only if there is a listener that is open to
    /// every program of this machine, because it could also use that one.
    void adopt(UniqueFd socket, HttpCaller caller) {
        if (!connections.has_place_for_node() || (!caller.is_let_in && acceptors.empty())) return;
        begin(local::socket(io, local(), socket.release()), std::move(caller));
    }

    const Handler handler;
    HttpConnections connections;  // outlives the coroutines, which `io` owns
    asio::io_context io{1};
    std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
    NewTlsSession new_tls_session;
    std::optional<local::acceptor> local_acceptor;
    std::string local_path;
};

HttpServer::HttpServer(Handler handler) : impl_(std::make_unique<Impl>(std::move(handler))) {}

HttpServer::~HttpServer() { stop(); }

asio::io_context& HttpServer::io() { return impl_->io; }

HttpServer::Endpoint HttpServer::listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls) {
    auto acceptor = std::make_unique<tcp::acceptor>(impl_->io, endpoint.protocol());
    acceptor->set_option(tcp::acceptor::reuse_address(true));
    if (only_ipv6 && endpoint.address().is_v6()) acceptor->set_option(asio::ip::v6_only(true));
    acceptor->bind(endpoint);
    acceptor->listen();
    auto real = acceptor->local_endpoint();
    asio::co_spawn(impl_->io, impl_->accept_from(*acceptor, has_tls), asio::detached);
    impl_->acceptors.push_back(std::move(acceptor));
    return real;
}

HttpServer::Endpoint HttpServer::listen(const Endpoint& endpoint, UniqueFd inherited,
                                        bool has_tls) {
    auto acceptor =
        std::make_unique<tcp::acceptor>(impl_->io, endpoint.protocol(), inherited.release());
    auto real = acceptor->local_endpoint();
    asio::co_spawn(impl_->io, impl_->accept_from(*acceptor, has_tls), asio::detached);
    impl_->acceptors.push_back(std::move(acceptor));
    return real;
}

void HttpServer::listen_locally(const std::string& path) {
    const LocalSocketPath place(path);
    place.remove_leftover();
    local::acceptor acceptor(impl_->io, local());
    acceptor.bind(local::endpoint(place.short_path()));
    if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0)
        throw boost::system::system_error(errno, boost::system::system_category());
    acceptor.listen();
    impl_->accept_locally(path, std::move(acceptor));
}

void HttpServer::listen_locally(const std::string& path, UniqueFd inherited) {
    impl_->accept_locally(path, local::acceptor(impl_->io, local(), inherited.release()));
}

void HttpServer::adopt(UniqueFd socket, HttpCaller caller) {
    asio::post(impl_->io, [this, socket = std::move(socket), caller = std::move(caller)]() mutable {
        impl_->adopt(std::move(socket), std::move(caller));
    });
}

std::vector<int> HttpServer::listening() const {
    std::vector<int> sockets;
    for (const auto& acceptor : impl_->acceptors) sockets.push_back(acceptor->native_handle());
    return sockets;
}

int HttpServer::listening_locally() const {
    return impl_->local_acceptor ? impl_->local_acceptor->native_handle() : -1;
}

void HttpServer::use(NewTlsSession new_tls_session) {
    asio::post(impl_->io, [this, made = std::move(new_tls_session)]() mutable {
        impl_->new_tls_session = std::move(made);
    });
}

void HttpServer::start() {
    thread_ = std::thread([this] {
        name_thread("http");
        impl_->io.run();
    });
}

void HttpServer::hold() {
    const auto stands_still = std::make_shared<std::promise<void>>();
    released_ = {};
    asio::post(impl_->io, [stands_still, released = released_.get_future().share()] {
        stands_still->set_value();
        released.wait();
    });
    stands_still->get_future().wait();
}

void HttpServer::release() { released_.set_value(); }

void HttpServer::stop() {
    // A server that has never run may belong to a new process that can't take over. Then the path
    // still leads to the old process, so the file stays.
    const bool has_run = thread_.joinable();
    impl_->io.stop();
    if (has_run) thread_.join();
    if (const auto path = std::exchange(impl_->local_path, {}); has_run && !path.empty())
        ::unlink(path.c_str());
}

}  // namespace pulsegate
