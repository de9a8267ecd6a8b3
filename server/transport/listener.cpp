#include "server/transport/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/base/log.h"

namespace pulsegate {

namespace {

/// Connections accepted in one turn of the loop; connected clients are served in between.
constexpr int accepts_a_turn = 2;
constexpr int backlog = 4096;

void check(bool success, const char* what) {
    if (!success) throw boost::system::system_error(errno, boost::system::system_category(), what);
}

void set(const UniqueFd& socket, int level, int option) {
    constexpr int on = 1;
    check(::setsockopt(socket.get(), level, option, &on, sizeof on) == 0, "setsockopt");
}

UniqueFd open(const Listener::Endpoint& endpoint, Listener::Ipv4 ipv4) {
    UniqueFd socket(::socket(endpoint.protocol().family(),
                             SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    check(static_cast<bool>(socket), "socket");
    set(socket, SOL_SOCKET, SO_REUSEADDR);
    if (endpoint.address().is_v6() && ipv4 == Listener::Ipv4::left_out)
        set(socket, IPPROTO_IPV6, IPV6_V6ONLY);
    return socket;
}

void bind(const UniqueFd& socket, const Listener::Endpoint& endpoint) {
    const auto size = static_cast<socklen_t>(endpoint.size());
    check(::bind(socket.get(), endpoint.data(), size) == 0, "bind");
}

}  // namespace

Listener::Listener(EventLoop& loop, const Endpoint& endpoint, Ipv4 ipv4, Admission& admission,
                   std::function<void(UniqueFd, const Endpoint&)> accepted)
    : loop_(loop),
      socket_(open(endpoint, ipv4)),
      admission_(admission),
      accepted_(std::move(accepted)) {
    set(socket_, SOL_SOCKET, SO_REUSEPORT);
    set(socket_, IPPROTO_TCP, TCP_NODELAY);  // accepted sockets inherit it
    bind(socket_, endpoint);
    check(::listen(socket_.get(), backlog) == 0, "listen");
    check(loop_.poller().add_insistent(socket_.get(), *this), "epoll");
}

void Listener::check_free(const Endpoint& endpoint, Ipv4 ipv4) {
    bind(open(endpoint, ipv4), endpoint);
}

Listener::Endpoint Listener::endpoint() const {
    Endpoint own;
    auto size = static_cast<socklen_t>(own.capacity());
    check(::getsockname(socket_.get(), own.data(), &size) == 0, "getsockname");
    own.resize(size);
    return own;
}

/// To accept in vain costs nearly as much as to accept: only if others have come right before, more
/// than one is likely to wait.
int Listener::accepts_now() {
    const bool many = loop_.round() == last_round_ + 1;
    last_round_ = loop_.round();
    return many ? accepts_a_turn : 1;
}

void Listener::on_ready(Readiness) {
    for (int left = accepts_now(); left > 0; --left) {
        if (!admission_.can_accept()) {
            pause();
            return log_limited(
                spdlog::level::err,
                "{} connections are open, and no more may be ({}): new connections wait. "
                "Raise it (ulimit -n, LimitNOFILE, --max-connections)",
                admission_.open(), admission_.bound());
        }
        Endpoint peer;
        auto size = static_cast<socklen_t>(peer.capacity());
        UniqueFd socket(::accept4(socket_.get(), peer.data(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket) {
            peer.resize(size);
            admission_.opened();
            accepted_(std::move(socket), peer);
            continue;
        }
        if (errno == EAGAIN) return;
        if (errno == ECONNABORTED || errno == EINTR) continue;
        // Out of descriptors or memory: the next tick tries again, this loop would only spin.
        const int error = errno;
        pause();
        return log_limited(spdlog::level::err, "accept: {}; new connections wait",
                           std::strerror(error));
    }
}

void Listener::pause() {
    paused_ = true;
    loop_.poller().remove(socket_.get(), *this);
}

void Listener::tick() {
    if (!paused_) return;
    paused_ = !loop_.poller().add_insistent(socket_.get(), *this);
}

void Listener::stop() {
    paused_ = false;
    if (socket_) loop_.poller().close(std::move(socket_), *this);
}

}  // namespace pulsegate
