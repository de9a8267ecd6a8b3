#include "loadgen/net/http.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "loadgen/net/address.h"
#include "loadgen/net/descriptor.h"

namespace pulsegate::load {

namespace {

constexpr std::size_t largest_answer = 8 * 1024 * 1024;

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

/// A TCP connection that gives up at a given time.
class TimedConnection {
public:
    TimedConnection(const SocketAddress& address, Time until)
        : until_(until),
          socket_(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
        if (!socket_) fail(std::strerror(errno));
        if (::connect(socket_.get(), address.get(), address.size()) == 0) return;
        if (errno != EINPROGRESS) fail(std::strerror(errno));
        wait_for(POLLOUT);
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) fail(std::strerror(error));
    }

    void write(std::string_view text) {
        while (!text.empty()) {
            wait_for(POLLOUT);
            const auto sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
            if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
            if (sent < 0 && errno != EAGAIN) fail(std::strerror(errno));
        }
    }

    /// Reads until the peer closes.
    std::string read() {
        std::string text;
        std::array<char, 16384> part{};
        while (text.size() < largest_answer) {
            wait_for(POLLIN);
            const auto got = ::recv(socket_.get(), part.data(), part.size(), 0);
            if (got == 0) return text;
            if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
            if (got < 0 && errno != EAGAIN) fail(std::strerror(errno));
        }
        fail("the answer is larger than 8 MiB");
    }

private:
    void wait_for(short events) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now());
        pollfd waiting{socket_.get(), events, 0};
        if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0)
            fail("no answer in time");
    }

    const Time until_;
    Descriptor socket_;
};

std::string text_of(const HttpRequest& request, const HttpUrl& url) {
    std::string text = fmt::format("{} {} HTTP/1.0\r\nHost: {}\r\nAccept: */*\r\n",
                                   request.body.empty() ? "GET" : "POST",
                                   url.path.empty() ? "/" : url.path, url.authority);
    if (!request.token.empty()) text += fmt::format("Authorization: Bearer {}\r\n", request.token);
    if (!request.body.empty()) text += fmt::format("Content-Length: {}\r\n", request.body.size());
    return text + "\r\n" + request.body;
}

}  // namespace

HttpUrl parse_http_url(std::string_view url) {
    constexpr std::string_view scheme = "http://";
    const char* remedy = "write the address as http://HOST:PORT/PATH";
    if (!url.starts_with(scheme)) throw std::invalid_argument(remedy);
    url.remove_prefix(scheme.size());
    const auto slash = std::min(url.find('/'), url.size());
    HttpUrl parts;
    parts.authority = url.substr(0, slash);
    parts.path = url.substr(slash);

    std::string_view host = parts.authority;
    const auto bracket = host.find(']');
    const auto colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (colon != std::string_view::npos) {
        const auto digits = host.substr(colon + 1);
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), parts.port);
        if (error != std::errc() || end != digits.data() + digits.size() || parts.port == 0)
            throw std::invalid_argument("write a port from 1 to 65535");
        host = host.substr(0, colon);
    }
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host.empty()) throw std::invalid_argument(remedy);
    parts.host = host;
    return parts;
}

// HTTP/1.0, so that the answer ends with the connection and comes in one piece.
HttpAnswer ask(const HttpRequest& request) try {
    const Time until = Clock::now() + request.within;
    const auto url = parse_http_url(request.url);
    TimedConnection connection(resolve(url.host, url.port).at(0), until);
    connection.write(text_of(request, url));
    auto answer = connection.read();
    constexpr std::string_view protocol = "HTTP/1.1 ";
    const auto head = answer.find("\r\n\r\n");
    if (!answer.starts_with(protocol.substr(0, 7)) || head == std::string::npos ||
        head < protocol.size())
        fail("the answer is no HTTP");
    int status = 0;
    std::from_chars(answer.data() + protocol.size(), answer.data() + head, status);
    return {status, answer.substr(head + 4)};
} catch (const std::exception& error) {
    return {0, error.what()};
}

}  // namespace pulsegate::load
