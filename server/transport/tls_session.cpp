#include "server/transport/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace pulsegate {

namespace {

int at_most_int(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

/// What SSL_read or SSL_write returned, as recv and send would say it.
ssize_t translate(SSL* ssl, int result) {
    if (result > 0) return result;
    switch (SSL_get_error(ssl, result)) {
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

std::size_t TlsSession::memory_for(int socket) {
    constexpr std::size_t usual = 48 * 1024;
    constexpr std::size_t longest_hello = 128 * 1024;
    std::uint8_t begin[9]{};  // the headers of the record and of the hello
    const auto size = ::recv(socket, begin, sizeof begin, MSG_PEEK | MSG_DONTWAIT);
    const bool is_whole = size == sizeof begin && (begin[3] != 0 || begin[4] >= 4);
    const std::size_t claim = std::size_t{begin[6]} << 16 | begin[7] << 8 | begin[8];
    // It grows by a third more than it has to.
    return usual + (is_whole ? std::min(claim, longest_hello) : longest_hello) / 3 * 4;
}

std::unique_ptr<TlsSession> TlsSession::accept(SSL_CTX* context, int socket) {
    ERR_clear_error();
    std::unique_ptr<TlsSession> session(new TlsSession(context));
    if (!session->ssl() || !session->attach(socket)) return nullptr;
    SSL_set_accept_state(session->ssl());
    return session;
}

bool TlsSession::attach(int socket) {
    if (SSL_set_fd(ssl(), socket) != 1) return false;
    BIO* const input = SSL_get_rbio(ssl());
    BIO_set_callback_ex(input, limit_reading);
    BIO_set_callback_arg(input, reinterpret_cast<char*>(this));
    SSL_set_msg_callback(ssl(), count_record);
    SSL_set_msg_callback_arg(ssl(), this);
    return true;
}

/// In TLS 1.3 an encrypted record says what it holds when it is decrypted.
void TlsSession::count_record(int is_sent, int, int type, const void* bytes, std::size_t, SSL*,
                              void* self) {
    if (is_sent != 0 || (type != SSL3_RT_HEADER && type != SSL3_RT_INNER_CONTENT_TYPE)) return;
    auto& session = *static_cast<TlsSession*>(self);
    if (type == SSL3_RT_HEADER) ++session.taken_;
    if (*static_cast<const std::uint8_t*>(bytes) == SSL3_RT_APPLICATION_DATA) return;
    ++session.taken_without_data_;
    ++session.without_data_;
}

/// Lets the last record that may be taken be read to its end.
long TlsSession::limit_reading(BIO* socket, int operation, const char*, std::size_t size, int, long,
                               int result, std::size_t*) {
    if (operation != BIO_CB_READ || size > SSL3_RT_HEADER_LENGTH) return result;
    const auto& session = *reinterpret_cast<const TlsSession*>(BIO_get_callback_arg(socket));
    if (!session.is_stopped()) return result;
    BIO_clear_retry_flags(socket);
    BIO_set_retry_read(socket);
    return -1;
}

void TlsSession::begin_call() {
    taken_ = 0;
    taken_without_data_ = 0;
    errno = 0;
    ERR_clear_error();
}

int TlsSession::shake_hands() {
    begin_call();
    const int result = SSL_do_handshake(ssl());
    without_data_ = 0;  // its own have none
    return result;
}

ssize_t TlsSession::receive(void* buffer, std::size_t size) {
    begin_call();
    const int result = is_flooded() ? -1 : SSL_read(ssl(), buffer, at_most_int(size));
    if (result > 0) without_data_ = 0;
    if (is_flooded()) {
        errno = EPROTO;
        return -1;
    }
    const ssize_t received = translate(ssl(), result);
    if (received < 0 && errno == EAGAIN && is_stopped() && !wants_to_write()) errno = EINTR;
    return received;
}

ssize_t TlsSession::send(const void* bytes, std::size_t size) {
    begin_call();
    const ssize_t sent = translate(ssl(), SSL_write(ssl(), bytes, at_most_int(size)));
    if (sent != 0) return sent;
    // The peer has closed its side of TLS before the connection broke: that is no progress, or the
    // flush would go on for ever.
    errno = EPIPE;
    return -1;
}

}  // namespace pulsegate
