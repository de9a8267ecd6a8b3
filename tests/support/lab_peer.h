#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "loadgen/net/address.h"
#include "loadgen/net/descriptor.h"
#include "loadgen/net/loop.h"
#include "tests/support/patience.h"
#include "tests/support/wire.h"

namespace pulsegate {

/// One connection of a scripted server: the test reads and writes its bytes itself.
class LabConnection {
public:
    explicit LabConnection(load::Descriptor socket) : socket_(std::move(socket)) {
        const timeval limit{.tv_sec = test_patience.count(), .tv_usec = 0};
        setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        const int at_once = 1;
        setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    }

    void write(std::string_view bytes) {
        if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(bytes.size()))
            throw std::runtime_error("the peer could not write");
    }

    /// Exactly so many bytes, fewer at the end of the stream or after `test_patience`.
    std::string read(std::size_t size) {
        std::string bytes(size, '\0');
        const auto got = ::recv(socket_.get(), bytes.data(), size, MSG_WAITALL);
        bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
        return bytes;
    }

    std::string read_until(std::string_view end) {
        std::string bytes;
        while (!bytes.ends_with(end)) {
            const std::string next = read(1);
            if (next.empty()) break;
            bytes += next;
        }
        return bytes;
    }

    /// Bytes that have come and were not read.
    std::string waiting() {
        std::string bytes(65536, '\0');
        const auto got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
        return bytes;
    }

    void finish() { ::shutdown(socket_.get(), SHUT_WR); }

    void reset() {
        const linger now{.l_onoff = 1, .l_linger = 0};
        setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
        socket_.reset();
    }

    void close() { socket_.reset(); }
    int number() const { return socket_.get(); }

private:
    load::Descriptor socket_;
};

/// Listens on a free port of loopback.
class LabPeer {
public:
    LabPeer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        if (::bind(socket_.get(), generic, size) < 0 || ::listen(socket_.get(), 64) < 0 ||
            ::getsockname(socket_.get(), generic, &size) < 0)
            throw std::runtime_error("the peer can't listen");
        address_ = load::SocketAddress(generic, size);
        port_ = ntohs(address.sin_port);
    }

    /// Waits for the next connection. The kernel has accepted it already if the loop has run.
    LabConnection accept() {
        pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
        if (::poll(&waiting, 1, test_patience_ms) != 1) throw std::runtime_error("nobody connects");
        return LabConnection(
            load::Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    }

    /// Is there a connection that is not accepted yet?
    bool is_awaited() const {
        pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
        return ::poll(&waiting, 1, 0) == 1;
    }

    const load::SocketAddress& address() const { return address_; }
    std::uint16_t port() const { return port_; }
    void stop_listening() { socket_.reset(); }

private:
    load::Descriptor socket_;
    load::SocketAddress address_;
    std::uint16_t port_ = 0;
};

/// Runs a loop until a condition holds; false if it does not within `test_patience`.
class LabRun : load::Loop::Owner {
public:
    explicit LabRun(load::Loop& loop) : loop_(loop) {}

    bool until(std::function<bool()> condition) {
        condition_ = std::move(condition);
        deadline_ = load::Clock::now() + test_patience;
        holds_ = false;
        loop_.run(*this);
        return holds_;
    }

    /// Everything that has happened so far is handled.
    void settle() {
        int turns = 0;
        until([&] { return ++turns > 3; });
    }

private:
    load::Time turn(load::Time now, load::Duration) override {
        holds_ = condition_();
        if (holds_ || now > deadline_) loop_.stop();
        return now + std::chrono::milliseconds(1);
    }

    load::Loop& loop_;
    std::function<bool()> condition_;
    load::Time deadline_{};
    bool holds_ = false;
};

}  // namespace pulsegate
