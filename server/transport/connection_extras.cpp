#include "server/transport/connection_extras.h"

#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace pulsegate {

namespace {

int at_most_int(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

/// What SSL_read or SSL_write returned, as recv and send would say it.
ssize_t translate(SSL* tls, int result) {
    if (result > 0) return result;
    switch (SSL_get_error(tls, result)) {
        case SSL_ERROR_WANT_READ:
        case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
        case SSL_ERROR_ZERO_RETURN: return 0;
        case SSL_ERROR_SYSCALL:
            if (errno == 0 || errno == EAGAIN) errno = ECONNRESET;
            return -1;
        default: errno = EPROTO; return -1;
    }
}

}  // namespace

std::optional<boost::asio::ip::tcp::endpoint> peer_of(int socket) {
    boost::asio::ip::tcp::endpoint peer;
    socklen_t size = static_cast<socklen_t>(peer.capacity());
    if (::getpeername(socket, peer.data(), &size) != 0) return std::nullopt;
    peer.resize(size);
    return peer;
}

// The C library's recv and send are cancellation points: in a process with threads each call pays
// for that, though no thread here is ever cancelled.
ssize_t receive_now(int socket, SSL* tls, void* buffer, std::size_t size) {
    if (!tls) return ::syscall(SYS_recvfrom, socket, buffer, size, MSG_DONTWAIT, nullptr, nullptr);
    ERR_clear_error();
    return translate(tls, SSL_read(tls, buffer, at_most_int(size)));
}

ssize_t send_now(int socket, SSL* tls, const void* bytes, std::size_t size) {
    if (!tls)
        return ::syscall(SYS_sendto, socket, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
    ERR_clear_error();
    const ssize_t sent = translate(tls, SSL_write(tls, bytes, at_most_int(size)));
    if (sent != 0) return sent;
    // The peer has closed its side of TLS before the connection broke: that is no progress, or the
    // flush would go on for ever.
    errno = EPIPE;
    return -1;
}

}  // namespace pulsegate
