#include "server/transport/listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/ip/v6_only.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/base/log.h"

namespace pulsegate {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// Connections accepted in one round of the loop; connected clients are served in between.
constexpr int accepts_a_turn = 2;
constexpr int backlog = 4096;

tcp::acceptor open(asio::io_context& context, const tcp::endpoint& endpoint, Listener::Ipv4 ipv4) {
    tcp::acceptor acceptor(context, endpoint.protocol());
    ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    if (endpoint.address().is_v6() && ipv4 == Listener::Ipv4::left_out)
        acceptor.set_option(asio::ip::v6_only(true));
    return acceptor;
}

/// Lets each shard listen on a socket of its own.
using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

}  // namespace

Listener::Listener(Rounds& rounds, const Endpoint& endpoint, Ipv4 ipv4, Admission& admission,
                   Accepted accepted)
    : rounds_(rounds),
      acceptor_(open(rounds.context(), endpoint, ipv4)),
      admission_(admission),
      accepted_(std::move(accepted)) {
    acceptor_.set_option(ReusePort(true));
    acceptor_.set_option(tcp::no_delay(true));  // accepted sockets inherit it
    acceptor_.native_non_blocking(true);
    acceptor_.bind(endpoint);
    acceptor_.listen(backlog);
    wait();
}

Listener::Listener(Rounds& rounds, const Endpoint& endpoint, UniqueFd inherited,
                   Admission& admission, Accepted accepted)
    : rounds_(rounds),
      acceptor_(rounds.context(), endpoint.protocol(), inherited.get()),
      admission_(admission),
      accepted_(std::move(accepted)) {
    static_cast<void>(inherited.release());  // the acceptor closes it
    acceptor_.set_option(tcp::no_delay(true));
    acceptor_.native_non_blocking(true);
    wait();
}

void Listener::check_free(const Endpoint& endpoint, Ipv4 ipv4) {
    asio::io_context context;
    open(context, endpoint, ipv4).bind(endpoint);
}

void Listener::wait() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](const boost::system::error_code& error) {
        if (error || !acceptor_.is_open()) return;
        rounds_.run([this] { accept_some(); });
        if (!paused_) wait();
    });
}

/// A failed accept costs nearly as much as a successful one. More than one connection is likely to
/// wait only if a connection was accepted in the last two rounds.
int Listener::accepts_now() {
    const auto now = rounds_.round();
    const bool many = now <= std::exchange(last_round_, now) + 2;
    return many ? accepts_a_turn : 1;
}

/// Uses accept4, because async_accept would watch each client with a reactor entry of its own.
void Listener::accept_some() {
    if (rests_) {
        paused_ = true;
        return;
    }
    for (int left = accepts_now(); left > 0; --left) {
        if (!admission_.can_accept()) {
            paused_ = true;
            return log_limited(
                spdlog::level::err,
                "{} connections are open, which is the maximum ({}): new connections wait. Raise "
                "it (ulimit -n, LimitNOFILE, --max-connections)",
                admission_.open(), admission_.bound());
        }
        Endpoint peer;
        auto size = static_cast<socklen_t>(peer.capacity());
        UniqueFd socket(
            ::accept4(acceptor_.native_handle(), peer.data(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket) {
            peer.resize(size);
            admission_.opened();
            accepted_(std::move(socket), peer);
            continue;
        }
        if (errno == EAGAIN) return;
        if (errno == ECONNABORTED || errno == EINTR) continue;
        // No descriptors or memory are left. The next tick tries again, because this loop would
        // only spin.
        const int error = errno;
        paused_ = true;
        return log_limited(spdlog::level::err, "accept: {}; new connections wait",
                           std::strerror(error));
    }
}

void Listener::tick() {
    rests_ = false;
    if (std::exchange(paused_, false)) wait();
}

void Listener::stop() {
    paused_ = false;
    boost::system::error_code ignored;
    acceptor_.close(ignored);
}

}  // namespace pulsegate
