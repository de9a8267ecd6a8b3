#include "server/transport/handshakes/connection_extras.h"

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
ssize_t receive_now(int socket, ConnectionExtras* wraps, void* buffer, std::size_t size) {
    if (wraps && wraps->channel) return wraps->channel->receive(buffer, size);
    if (wraps && wraps->small)
        return wraps->small->receive(socket, static_cast<std::uint8_t*>(buffer), size);
    if (wraps && wraps->tls) return wraps->tls->receive(buffer, size);
    return ::syscall(SYS_recvfrom, socket, buffer, size, MSG_DONTWAIT, nullptr, nullptr);
}

ssize_t send_now(int socket, ConnectionExtras* wraps, Buffer& out, std::size_t sent) {
    if (wraps && wraps->channel) return wraps->channel->send(std::string_view(out).substr(sent));
    if (wraps && wraps->small) return wraps->small->send(socket, out, sent);
    if (wraps && wraps->tls) return wraps->tls->send(out.data() + sent, out.size() - sent);
    return ::syscall(SYS_sendto, socket, out.data() + sent, out.size() - sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}

void send_last(int socket, ConnectionExtras* wraps, std::string_view bytes) {
    if (wraps && wraps->channel) return wraps->channel->send_last(bytes);
    if (wraps && wraps->small) return wraps->small->end(socket, bytes);
    Buffer out(bytes);
    if (!out.empty()) send_now(socket, wraps, out, 0);
    if (wraps && wraps->tls && !wraps->is_handshaking()) SSL_shutdown(wraps->tls->ssl());
}

}  // namespace pulsegate
