#include "loadgen/net/half_open.h"

#include <sys/epoll.h>

namespace pulsegate::load {

HalfOpenSockets::~HalfOpenSockets() {
    for (Socket& socket : sockets_) loop_.forget(socket);
}

void HalfOpenSockets::take(Descriptor socket, Loop::Handler& from) {
    if (!sockets_.empty() && sockets_.size() >= most_) {
        drop(sockets_.front());
        ++given_up_;
    }
    Socket& taken = sockets_.emplace_back(*this, std::move(socket));
    taken.self = std::prev(sockets_.end());
    loop_.hand_over(taken.descriptor.get(), from, taken);
}

void HalfOpenSockets::Socket::ready(std::uint32_t events) {
    if (!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) return;
    all_.drop(*this);
}

void HalfOpenSockets::drop(Socket& socket) {
    loop_.forget(socket);
    sockets_.erase(socket.self);
}

}  // namespace pulsegate::load
