#include "server/transport/handshakes/handshake.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <cerrno>
#include <optional>
#include <utility>

#include "protocol/proxy.h"
#include "server/base/clock.h"
#include "server/base/text/date.h"
#include "server/transport/handshakes/connection_layers.h"
#include "server/web/request_target.h"
#include "server/web/web_origin.h"

namespace pulsegate {

namespace {

namespace http = boost::beast::http;

using Step = Handshake::Step;

/// The largest PROXY header, and the largest HTTP request, that a connection may begin with.
constexpr std::size_t longest_header = 8 * 1024;

Step step_after_failure(ssize_t size) {
    if (size < 0 && errno == EAGAIN) return Step::reads;
    return size < 0 && errno == EINTR ? Step::tls : Step::gone;
}

/// Sec-WebSocket-Accept (RFC 6455, section 4.2.2).
std::string accept_key(std::string key) {
    key += "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[SHA_DIGEST_LENGTH];
    SHA1(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest);
    unsigned char text[4 * ((SHA_DIGEST_LENGTH + 2) / 3) + 1];
    EVP_EncodeBlock(text, digest, SHA_DIGEST_LENGTH);
    return reinterpret_cast<const char*>(text);
}

/// 16 bytes in base64: 22 characters and "==".
bool valid_key(std::string_view key) {
    const auto is_base64 = [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '/'; };
    return key.size() == 24 && key.ends_with("==") &&
           std::all_of(key.begin(), key.end() - 2, is_base64);
}

/// The protocol that the answer names: "mqtt", or 3.1's "mqttv3.1", exactly as the client has
/// written it, because a browser compares each letter. It may offer several, in fields of their own
/// as well (RFC 6455, section 11.3.4).
std::optional<std::string> sub_protocol(const http::request_header<>& request) {
    const auto fields = request.equal_range(http::field::sec_websocket_protocol);
    for (const std::string_view known : {"mqtt", "mqttv3.1"})
        for (auto field = fields.first; field != fields.second; ++field)
            for (const auto offered : http::token_list(field->value()))
                if (boost::beast::iequals(offered, known)) return std::string(offered);
    return std::nullopt;
}

boost::asio::ip::tcp::endpoint endpoint_of(const ProxySource& source) {
    const auto address = std::visit(
        [](const auto& bytes) -> boost::asio::ip::address {
            if constexpr (std::is_same_v<std::decay_t<decltype(bytes)>, Ipv4>)
                return boost::asio::ip::make_address_v4(bytes);
            else
                return boost::asio::ip::make_address_v6(bytes);
        },
        source.address);
    return {address, source.port};
}

std::string http_error(const char* status, const char* error, const char* more = "") {
    const auto body = fmt::format(R"({{"error":"{}"}})", error);
    return fmt::format(
        "HTTP/1.1 {}\r\nDate: {}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n{}\r\n{}",
        status, http_date(wall_now()), body.size(), more, body);
}

}  // namespace

Step Handshake::proceed(int socket, ConnectionLayers& layers, bool may_run_tls) {
    while (true) {
        Step step = Step::done;
        if (!output_.empty())
            step = write(socket, layers);
        else if (*why_ != '\0')
            return Step::refused;
        else if (remaining_.proxy_protocol)
            step = read_proxy_header(socket, layers);
        else if (remaining_.tls)
            step = may_run_tls ? shake_hands(socket, layers) : Step::tls;
        else if (!remaining_.path.empty())
            step = read_upgrade(socket, layers);
        else
            return Step::done;
        if (step != Step::done) return step;
    }
}

Step Handshake::refuse(const char* why) {
    why_ = why;
    return Step::done;  // refused when the answer to the peer is written
}

/// Takes no byte after the header from the socket, because the next bytes may be for TLS, which
/// reads from the socket itself.
Step Handshake::read_proxy_header(int socket, ConnectionLayers& layers) {
    std::uint8_t seen[longest_header];
    const auto size = ::recv(socket, seen, sizeof seen - input_.size(), MSG_PEEK);
    if (size <= 0) return step_after_failure(size);
    const auto known = input_.size();
    input_.append(reinterpret_cast<const char*>(seen), static_cast<std::size_t>(size));
    const ProxyHeader header = proxy_header(as_bytes(input_));
    if (header.status == ProxyHeader::Status::bad) return refuse(header.cause);
    const bool complete = header.status == ProxyHeader::Status::complete;
    if (!complete && input_.size() >= longest_header) return refuse("the PROXY header is too long");
    const auto mine = complete ? header.size - known : static_cast<std::size_t>(size);
    if (::recv(socket, seen, mine, 0) != static_cast<ssize_t>(mine)) return Step::gone;
    if (!complete) return Step::done;  // read again until the socket has no more
    // If a proxy states no client address, its own address counts. Otherwise no limits by address
    // would apply.
    const auto peer = header.source ? endpoint_of(*header.source) : peer_of(socket);
    if (!peer) return Step::gone;
    layers.proxied_peer = std::make_unique<const boost::asio::ip::tcp::endpoint>(*peer);
    input_.clear();
    remaining_.proxy_protocol = false;
    return Step::done;
}

Step Handshake::shake_hands(int socket, ConnectionLayers& layers) {
    if (!layers.tls) layers.tls = tls_->accept(socket);
    if (!layers.tls) return refuse("no memory for TLS");
    const int result = layers.tls->shake_hands();
    if (result == 1) {
        remaining_.tls = false;
        go_on_small(layers);
        return Step::done;
    }
    switch (SSL_get_error(layers.tls->ssl(), result)) {
        case SSL_ERROR_WANT_READ: return layers.tls->is_stopped() ? Step::tls : Step::reads;
        case SSL_ERROR_WANT_WRITE: return Step::writes;
        case SSL_ERROR_SSL:
            trouble_ = "TLS handshake: " + tls_trouble(layers.tls->ssl());
            return refuse(trouble_.c_str());
        default: return Step::gone;
    }
}

/// Frees OpenSSL's object, unless it is still needed.
void Handshake::go_on_small(ConnectionLayers& layers) {
    auto [small, idle] = layers.tls->go_on_small();
    tls_idle_ = idle;
    if (!small) return;
    certificate_ = client_certificate(layers.tls->ssl());
    tls_memory_ = sizeof(SmallTls) + KeyPool::sizes.back();
    layers.small = std::move(small);
    layers.tls.reset();
}

Step Handshake::read_upgrade(int socket, ConnectionLayers& layers) {
    constexpr std::string_view end_of_header = "\r\n\r\n";
    // Room for a whole record: if a part of it were kept, the socket would not become readable.
    char bytes[SmallTls::least_room];
    const auto size = receive_now(socket, &layers, bytes, sizeof bytes);
    if (size <= 0) return step_after_failure(size);
    const auto looked_at = input_.size() - std::min(input_.size(), end_of_header.size() - 1);
    input_.append(bytes, static_cast<std::size_t>(size));
    const auto end = input_.find(end_of_header, looked_at);
    if (end <= longest_header - end_of_header.size())
        return answer_upgrade(end + end_of_header.size(), layers);
    // Reads on until there is no more input. A TLS record may have a single byte and costs its
    // decryption anyway, so further records wait for a turn.
    const bool has_tls = layers.tls || layers.small;
    if (input_.size() < longest_header) return has_tls ? Step::tls : Step::done;
    output_ = http_error("431 Request Header Fields Too Large", "the request is too large");
    return refuse("WebSocket: the request is too large");
}

Step Handshake::answer_upgrade(std::size_t header_size, ConnectionLayers& layers) {
    const auto reject = [this](const char* status, const char* error, const char* more = "") {
        output_ = http_error(status, error, more);
        return refuse(error);
    };
    http::request_parser<http::empty_body> parser;
    boost::system::error_code error;
    parser.header_limit(longest_header);
    parser.put(boost::asio::buffer(input_.data(), header_size), error);
    if (error || !parser.is_header_done())
        return reject("400 Bad Request", "this is not an HTTP request");
    const auto& request = parser.get();
    if (const char* const fault = fault_of_host(request); *fault != '\0')
        return reject("400 Bad Request", fault);
    const RequestTarget target = request_target(request);
    if (target.path != remaining_.path)
        return reject("404 Not Found", "there is no WebSocket at this path");
    // RFC 9110, sections 7.8 and 15.5.22: 426 names the protocol to upgrade to in Upgrade, and
    // Connection names Upgrade.
    constexpr auto what =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    if (!boost::beast::websocket::is_upgrade(request))
        return reject("426 Upgrade Required", "this is for WebSocket clients", what);
    if (request[http::field::sec_websocket_version] != "13")
        return reject("426 Upgrade Required", "WebSocket version 13 is spoken here", what);
    const std::string origin(request[http::field::origin]);
    const bool misled = remaining_.guards_loopback && remaining_.origins->empty() &&
                        !origin.empty() && !is_loopback_host(target.host);
    if (misled || !origin_allowed(origin, target.host, *remaining_.origins))
        return reject("403 Forbidden", "web pages of this origin are not in websocket-origin");
    const std::string key(request[http::field::sec_websocket_key]);
    if (!valid_key(key)) return reject("400 Bad Request", "Sec-WebSocket-Key is not a key");
    const auto protocol = sub_protocol(request);
    if (!protocol) return reject("400 Bad Request", "the WebSocket sub-protocol must be mqtt");

    output_ =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Protocol: " +
        *protocol + "\r\nSec-WebSocket-Accept: " + accept_key(key) + "\r\n\r\n";
    input_.erase(0, header_size);
    remaining_.path.clear();
    layers.websocket = std::make_unique<WebSocketState>();
    return Step::done;
}

Step Handshake::write(int socket, ConnectionLayers& layers) {
    const auto size = send_now(socket, &layers, output_, 0);
    if (size < 0 && errno == EAGAIN) return Step::writes;
    if (size <= 0) return Step::gone;
    output_.erase(0, static_cast<std::size_t>(size));
    return Step::done;
}

}  // namespace pulsegate
