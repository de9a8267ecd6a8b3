#include "server/transport/tls/tls_session.h"

#include <openssl/bio.h>
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
    std::unique_ptr<TlsSession> session(new TlsSession(context, socket));
    if (!session->ssl() || !session->attach()) return nullptr;
    SSL_set_accept_state(session->ssl());
    return session;
}

bool TlsSession::attach() {
    BIO* const bio = BIO_new(method());
    if (!bio) return false;
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl(), bio, bio);
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

/// The last record that may be taken is read to its end.
int TlsSession::read_socket(BIO* bio, char* bytes, int size) {
    auto& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (session.is_stopped() && size <= SSL3_RT_HEADER_LENGTH) {
        BIO_set_retry_read(bio);
        return -1;
    }
    const auto result = static_cast<int>(
        ::syscall(SYS_recvfrom, session.socket_, bytes, size, MSG_DONTWAIT, nullptr, nullptr));
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    if (result == 0) session.is_at_end_ = true;
    return result;
}

int TlsSession::write_socket(BIO* bio, const char* bytes, int size) {
    const auto& session = *static_cast<const TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const auto result = static_cast<int>(::syscall(SYS_sendto, session.socket_, bytes, size,
                                                   MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0));
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return result;
}

long TlsSession::control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    return command == BIO_CTRL_EOF && static_cast<const TlsSession*>(BIO_get_data(bio))->is_at_end_;
}

/// A BIO of OpenSSL's own could be given a limit by callbacks only, and would call them for all
/// that it does.
const BIO_METHOD* TlsSession::method() {
    static BIO_METHOD* const made = [] {
        BIO_METHOD* const method =
            BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "socket");
        BIO_meth_set_read(method, read_socket);
        BIO_meth_set_write(method, write_socket);
        BIO_meth_set_ctrl(method, control);
        return method;
    }();
    return made;
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
