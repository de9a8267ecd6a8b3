#include "server/transport/handshakes/connection_layers.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pulsegate {

std::optional<boost::asio::ip::tcp::endpoint> peer_of(int socket) {
    boost::asio::ip::tcp::endpoint peer;
    socklen_t size = static_cast<socklen_t>(peer.capacity());
    if (::getpeername(socket, peer.data(), &size) != 0) return std::nullopt;
    peer.resize(size);
    return peer;
}

// Uses system calls directly. The C library's recv and send are cancellation points, and in a
// process with threads each call pays for this, although no thread here is ever cancelled.
ssize_t receive_now(int socket, ConnectionLayers* layers, void* buffer, std::size_t size) {
    if (layers && layers->channel) return layers->channel->receive(buffer, size);
    if (layers && layers->small)
        return layers->small->receive(socket, static_cast<std::uint8_t*>(buffer), size);
    if (layers && layers->tls) return layers->tls->receive(buffer, size);
    return ::syscall(SYS_recvfrom, socket, buffer, size, MSG_DONTWAIT, nullptr, nullptr);
}

ssize_t send_now(int socket, ConnectionLayers* layers, Buffer& out, std::size_t sent) {
    if (layers && layers->channel) return layers->channel->send(std::string_view(out).substr(sent));
    if (layers && layers->small) return layers->small->send(socket, out, sent);
    if (layers && layers->tls) return layers->tls->send(out.data() + sent, out.size() - sent);
    return ::syscall(SYS_sendto, socket, out.data() + sent, out.size() - sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}

}  // namespace pulsegate
