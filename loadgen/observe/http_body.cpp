#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "loadgen/net/address.h"
#include "loadgen/net/descriptor.h"
#include "loadgen/observe/metrics.h"

namespace pulsegate::load {

namespace {

constexpr std::size_t largest_answer = 8 * 1024 * 1024;

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

struct HttpTarget {
    std::string host;
    std::uint16_t port = 80;
    std::string authority;  ///< as in the Host field
    std::string path;
};

HttpTarget target_of(std::string_view url) {
    constexpr std::string_view scheme = "http://";
    const char* remedy = "write the metrics' address as http://HOST:PORT/metrics";
    if (!url.starts_with(scheme)) fail(remedy);
    url.remove_prefix(scheme.size());
    const auto slash = std::min(url.find('/'), url.size());
    HttpTarget target;
    target.authority = url.substr(0, slash);
    target.path = slash < url.size() ? url.substr(slash) : std::string_view("/metrics");

    std::string_view host = target.authority;
    const auto bracket = host.find(']');
    const auto colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (colon != std::string_view::npos) {
        const auto digits = host.substr(colon + 1);
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), target.port);
        if (error != std::errc() || end != digits.data() + digits.size() || target.port == 0)
            fail("the port of the metrics' address is not a number from 1 to 65535");
        host = host.substr(0, colon);
    }
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host.empty()) fail(remedy);
    target.host = host;
    return target;
}

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

}  // namespace

void check_metrics_url(const std::string& url) {
    try {
        (void)target_of(url);
    } catch (const std::runtime_error& remedy) {
        throw std::invalid_argument(remedy.what());
    }
}

std::string parse_api_url(std::string_view url) {
    while (url.ends_with('/')) url.remove_suffix(1);
    try {
        if (std::ranges::count(url, '/') > 2) fail("a path");
        (void)target_of(url);
    } catch (const std::runtime_error&) {
        throw std::invalid_argument("write the API's address as http://HOST:PORT");
    }
    return std::string(url);
}

// HTTP/1.0, so that the answer ends with the connection and comes in one piece.
std::string http_body(const std::string& url, Duration within, const std::string& token) {
    const Time until = Clock::now() + within;
    const auto target = target_of(url);
    TimedConnection connection(resolve(target.host, target.port).at(0), until);
    connection.write("GET " + target.path + " HTTP/1.0\r\nHost: " + target.authority +
                     "\r\nAccept: */*\r\n" +
                     (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n");
    auto answer = connection.read();
    const auto head = answer.find("\r\n\r\n");
    if (!answer.starts_with("HTTP/1.") || head == std::string::npos) fail("the answer is no HTTP");
    const auto status = answer.substr(0, answer.find('\r'));
    if (status.find(" 200") == std::string::npos) fail("the answer is " + status);
    return answer.substr(head + 4);
}

}  // namespace pulsegate::load
