#include "server/http/http_server.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "server/base/log.h"
#include "server/limits/address.h"

namespace pulsegate {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;
using RequestParser = http::request_parser<http::string_body>;

constexpr auto client_timeout = 10s;
/// For the header of a new connection's first request: who asks for /healthz has it ready.
constexpr auto first_header_timeout = 2s;
constexpr std::size_t most_connections = 128;
constexpr std::size_t most_connections_of_an_address = 64;
/// A thousand names; Beast throws at a field above 64 KiB.
constexpr std::uint32_t most_header_bytes = 60 * 1024;

/// A connection to the admin API. It belongs to its coroutine, `serve`.
struct Client
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    Client(tcp::socket socket, const Address& from) : stream(std::move(socket)), address(from) {}

    beast::tcp_stream stream;
    const Address address;
    bool waits = true;  ///< for a complete request
};

/// The connections to the admin API, those first that have waited longest for a request.
class Clients {
public:
    void add(Client& client) { list_.push_back(client); }

    /// The client waits for a request from now on.
    void wait(Client& client) {
        client.waits = true;
        list_.splice(list_.end(), list_, list_.iterator_to(client));
    }

    /// Is there a place for one more from this address? If places are short, whoever has waited
    /// longest for a request gives up its own, so that silent connections shut nobody out.
    bool make_room(const Address& address) {
        const auto same = [&](const Client& client) { return client.address == address; };
        const bool crowded = std::ranges::count_if(list_, same) >=
                             static_cast<std::ptrdiff_t>(most_connections_of_an_address);
        if (!crowded && list_.size() < most_connections) return true;
        const auto loser = std::ranges::find_if(list_, [&](const Client& client) {
            return client.waits && (!crowded || same(client));
        });
        if (loser == list_.end()) return false;
        loser->stream.close();
        loser->unlink();
        return true;
    }

private:
    boost::intrusive::list<Client, boost::intrusive::constant_time_size<false>> list_;
};

std::string_view lent(beast::string_view text) { return {text.data(), text.size()}; }

ApiRequest api_request(const Request& request) {
    const auto target = lent(request.target());
    const auto path = target.substr(0, target.find('?'));
    return {.method = request.method(),
            .path = path,
            .encoded_query = target.substr(std::min(path.size() + 1, target.size())),
            .body = request.body(),
            .authorization = lent(request[http::field::authorization]),
            .host = lent(request[http::field::host]),
            .origin = lent(request[http::field::origin]),
            .accept = lent(request[http::field::accept]),
            .last_event_id = lent(request["Last-Event-ID"])};
}

Response response_to(const Request& request, ApiReply reply) {
    Response response(reply.status, request.version());
    response.set(http::field::server, "Pulsegate/" PULSEGATE_VERSION);
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

/// Does the client deserve to be told?
bool is_bad_request(const boost::system::error_code& error) {
    return error && error.category() == http::make_error_code(http::error::bad_method).category() &&
           error != http::error::end_of_stream && error != http::error::partial_message;
}

Response refusal_of(const Request& request, const boost::system::error_code& error) {
    const auto status = error == http::error::body_limit ? http::status::payload_too_large
                                                         : http::status::bad_request;
    Response response = response_to(request, api_refusal(status, error.message()));
    response.keep_alive(false);
    return response;
}

}  // namespace

struct HttpServer::Impl {
    explicit Impl(Handler asked) : handler(std::move(asked)) {}

    /// Reads one request, up to its end.
    asio::awaitable<boost::system::error_code> read(Client& client, beast::flat_buffer& buffer,
                                                    RequestParser& parser,
                                                    std::chrono::seconds header_timeout) {
        boost::system::error_code error;
        parser.header_limit(most_header_bytes);
        parser.body_limit(boost::none);  // the header decides
        client.stream.expires_after(header_timeout);
        co_await http::async_read_header(client.stream, buffer, parser,
                                         asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return error;
        const std::size_t most_body = handler.most_body_bytes(api_request(parser.get()));
        if (parser.content_length().value_or(0) > most_body) co_return http::error::body_limit;
        parser.body_limit(most_body);
        client.stream.expires_after(client_timeout);
        co_await http::async_read(client.stream, buffer, parser,
                                  asio::redirect_error(asio::use_awaitable, error));
        co_return error;
    }

    asio::awaitable<ApiReply> answer(const Request& request) {
        const ApiRequest asked = api_request(request);
        co_return co_await handler.answer(asked);
    }

    /// Its length is not known before, so that the end of the connection is its end.
    asio::awaitable<void> send_stream(Client& client, const Request& request, ApiReply reply) {
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
            const std::string piece = co_await next();
            if (piece.empty()) break;
            client.stream.expires_after(client_timeout);
            co_await asio::async_write(client.stream, asio::buffer(piece),
                                       asio::redirect_error(asio::use_awaitable, error));
        }
    }

    asio::awaitable<void> serve(tcp::socket socket, Address address) {
        Client client(std::move(socket), address);
        clients.add(client);
        beast::flat_buffer buffer;
        boost::system::error_code error;
        std::chrono::seconds header_timeout = first_header_timeout;
        while (!error) {
            RequestParser parser;
            error = co_await read(client, buffer, parser, header_timeout);
            const bool bad = is_bad_request(error);
            if (error && !bad) break;
            client.waits = false;
            ApiReply reply;
            if (!bad) reply = co_await answer(parser.get());
            if (reply.stream) {
                co_await send_stream(client, parser.get(), std::move(reply));
                break;
            }
            const Response response =
                bad ? refusal_of(parser.get(), error) : response_to(parser.get(), std::move(reply));
            client.stream.expires_after(client_timeout);
            co_await http::async_write(client.stream, response,
                                       asio::redirect_error(asio::use_awaitable, error));
            if (!response.keep_alive()) break;
            if (client.is_linked()) clients.wait(client);
            header_timeout = client_timeout;
        }
        client.stream.socket().shutdown(tcp::socket::shutdown_send, error);
    }

    asio::awaitable<void> accept_from(tcp::acceptor& acceptor) {
        asio::steady_timer pause(io);
        while (true) {
            boost::system::error_code error;
            auto socket =
                co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
            if (error == asio::error::operation_aborted) co_return;
            if (error) {  // out of descriptors, most likely: don't spin
                spdlog::error("admin API: accept: {}", error.message());
                pause.expires_after(1s);
                co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
                continue;
            }
            const auto peer = socket.remote_endpoint(error);
            if (error) continue;  // it has gone
            const Address address(peer.address());
            if (!clients.make_room(address)) continue;  // closes it
            asio::co_spawn(io, serve(std::move(socket), address),
                           [](const std::exception_ptr& failed) {
                               try {
                                   if (failed) std::rethrow_exception(failed);
                               } catch (const std::exception& trouble) {
                                   log_limited(spdlog::level::err, "admin API: {}", trouble.what());
                               }
                           });
        }
    }

    const Handler handler;
    Clients clients;  // outlives the coroutines, which `io` owns
    asio::io_context io{1};
    std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
};

HttpServer::HttpServer(Handler handler) : impl_(std::make_unique<Impl>(std::move(handler))) {}

HttpServer::~HttpServer() { stop(); }

asio::io_context& HttpServer::io() { return impl_->io; }

HttpServer::Endpoint HttpServer::listen(const Endpoint& endpoint) {
    auto acceptor = std::make_unique<tcp::acceptor>(impl_->io, endpoint, true);
    auto real = acceptor->local_endpoint();
    asio::co_spawn(impl_->io, impl_->accept_from(*acceptor), asio::detached);
    impl_->acceptors.push_back(std::move(acceptor));
    return real;
}

void HttpServer::start() {
    thread_ = std::thread([this] { impl_->io.run(); });
}

void HttpServer::stop() {
    impl_->io.stop();
    if (thread_.joinable()) thread_.join();
}

}  // namespace pulsegate
