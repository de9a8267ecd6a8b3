#include "server/transport/listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "server/base/log.h"

namespace pulsegate {

namespace {

using ReusePort = boost::asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

/// Connections accepted in one turn of the loop; connected clients are served in between.
constexpr int accepts_a_turn = 2;
constexpr int backlog = 4096;

}  // namespace

Listener::Listener(boost::asio::io_context& io, const Endpoint& endpoint, Admission& admission,
                   std::function<void(UniqueFd, const Endpoint&)> accepted)
    : acceptor_(io), admission_(admission), accepted_(std::move(accepted)) {
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(boost::asio::socket_base::reuse_address(true));
    acceptor_.set_option(ReusePort(true));
    acceptor_.set_option(boost::asio::ip::tcp::no_delay(true));  // accepted sockets inherit it
    acceptor_.non_blocking(true);
    acceptor_.bind(endpoint);
    acceptor_.listen(backlog);
    wait();
}

void Listener::check_free(boost::asio::io_context& io, const Endpoint& endpoint) {
    boost::asio::ip::tcp::acceptor probe(io);
    probe.open(endpoint.protocol());
    probe.set_option(boost::asio::socket_base::reuse_address(true));
    probe.bind(endpoint);
}

void Listener::wait() {
    acceptor_.async_wait(acceptor_.wait_read, [this](boost::system::error_code error) {
        if (error) return;
        accept_some();
        if (!paused_) wait();
    });
}

void Listener::accept_some() {
    for (int i = 0; i < accepts_a_turn; ++i) {
        if (!admission_.can_accept()) {
            paused_ = true;
            return log_limited(
                spdlog::level::err,
                "{} connections are open, and no more may be ({}): new connections wait. "
                "Raise it (ulimit -n, LimitNOFILE, --max-connections)",
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
        // Out of descriptors or memory: the next tick tries again, this loop would only spin.
        paused_ = true;
        return log_limited(spdlog::level::err, "accept: {}; new connections wait",
                           std::strerror(errno));
    }
}

void Listener::tick() {
    if (!std::exchange(paused_, false)) return;
    wait();
}

void Listener::stop() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
}

}  // namespace pulsegate
