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

// The C library's recv and send are cancellation points: in a process with threads each call pays
// for that, though no thread here is ever cancelled.
ssize_t receive_now(int socket, TlsSession* tls, void* buffer, std::size_t size) {
    if (tls) return tls->receive(buffer, size);
    return ::syscall(SYS_recvfrom, socket, buffer, size, MSG_DONTWAIT, nullptr, nullptr);
}

ssize_t send_now(int socket, TlsSession* tls, const void* bytes, std::size_t size) {
    if (tls) return tls->send(bytes, size);
    return ::syscall(SYS_sendto, socket, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}

}  // namespace pulsegate
