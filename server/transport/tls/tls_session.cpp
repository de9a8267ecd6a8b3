#include "server/transport/tls/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

namespace pulsegate {

namespace {

int at_most_int(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

ssize_t read_now(int socket, char* bytes, std::size_t size) {
    return ::syscall(SYS_recvfrom, socket, bytes, size, MSG_DONTWAIT, nullptr, nullptr);
}

/// The index at which an SSL object has its TlsSession.
int place_of_session() {
    static const int place = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return place;
}

/// Translates the result of SSL_read or SSL_write into a result like that of recv and send.
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
    // OpenSSL's buffer may grow by a third more than necessary.
    return usual + (is_whole ? std::min(claim, longest_hello) : longest_hello) / 3 * 4;
}

void TlsSession::prepare(SSL_CTX* context) { SSL_CTX_set_keylog_callback(context, on_secret); }

TlsSession::TlsSession(SSL_CTX* context, int socket, Idle idle)
    : socket_(socket),
      switch_(idle == Idle::small ? std::make_unique<TlsSwitch>() : nullptr),
      ssl_(SSL_new(context)) {}

std::unique_ptr<TlsSession> TlsSession::accept(SSL_CTX* context, int socket, Idle idle) {
    ERR_clear_error();
    std::unique_ptr<TlsSession> session(new TlsSession(context, socket, idle));
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
    return SSL_set_ex_data(ssl(), place_of_session(), this) == 1;
}

void TlsSession::on_secret(const SSL* ssl, const char* line) {
    auto* const session = static_cast<TlsSession*>(SSL_get_ex_data(ssl, place_of_session()));
    if (session && session->switch_) session->switch_->on_secret(line);
}

void TlsSession::note_sent(int type, Bytes bytes) {
    if (!switch_) return;
    if (type == SSL3_RT_INNER_CONTENT_TYPE) switch_->on_sent_record();
    if (type == SSL3_RT_HANDSHAKE) switch_->on_sent_message(bytes);
}

/// Counts records. In TLS 1.3, the type of an encrypted record is known only after its decryption.
void TlsSession::count_record(int is_sent, int, int type, const void* bytes, std::size_t size, SSL*,
                              void* self) {
    auto& session = *static_cast<TlsSession*>(self);
    if (is_sent != 0)
        return session.note_sent(type, {static_cast<const std::uint8_t*>(bytes), size});
    if (type != SSL3_RT_HEADER && type != SSL3_RT_INNER_CONTENT_TYPE) return;
    if (type == SSL3_RT_HEADER) ++session.taken_;
    if (*static_cast<const std::uint8_t*>(bytes) == SSL3_RT_APPLICATION_DATA) return;
    ++session.taken_without_data_;
    ++session.without_data_;
}

/// Reads for OpenSSL. The last record that may be taken is read to its end.
int TlsSession::read_socket(BIO* bio, char* bytes, int size) {
    auto& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (session.is_stopped() && size <= SSL3_RT_HEADER_LENGTH) {
        BIO_set_retry_read(bio);
        return -1;
    }
    const auto result = static_cast<int>(session.fetch(bytes, static_cast<std::size_t>(size)));
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    if (result == 0) session.is_at_end_ = true;
    return result;
}

/// During a handshake, each call reads the socket once, as much as there is, and OpenSSL takes from
/// that only what it asks for. So OpenSSL never has bytes from after the handshake. After the
/// handshake, the rest of these bytes comes first, then the socket.
ssize_t TlsSession::fetch(char* bytes, std::size_t size) {
    static constexpr std::size_t most = 16 * 1024;
    thread_local std::array<char, most> buffer;
    if (ahead_.empty() && shakes_hands_) {
        if (std::exchange(has_read_, true)) {
            errno = EAGAIN;
            return -1;
        }
        const ssize_t read = read_now(socket_, buffer.data(), buffer.size());
        if (read <= 0) return read;
        ahead_ = {buffer.data(), static_cast<std::size_t>(read)};
        has_read_ = ahead_.size() < buffer.size();
    }
    if (ahead_.empty()) return read_now(socket_, bytes, size);
    const std::size_t taken = ahead_.copy(bytes, size);
    ahead_.remove_prefix(taken);
    return static_cast<ssize_t>(taken);
}

int TlsSession::write_socket(BIO* bio, const char* bytes, int size) {
    const auto& session = *static_cast<const TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const auto result = static_cast<int>(::syscall(SYS_sendto, session.socket_, bytes, size,
                                                   MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0));
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    if (result > 0 && session.switch_)
        session.switch_->on_written(as_bytes({bytes, static_cast<std::size_t>(result)}));
    return result;
}

long TlsSession::control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    return command == BIO_CTRL_EOF && static_cast<const TlsSession*>(BIO_get_data(bio))->is_at_end_;
}

/// OpenSSL's own BIO could be limited only with callbacks, and would call them for every operation.
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
    shakes_hands_ = true;
    has_read_ = false;
    const std::string rest = std::exchange(rest_, {});
    ahead_ = rest;
    const int result = SSL_do_handshake(ssl());
    shakes_hands_ = false;
    rest_ = ahead_;
    ahead_ = {};
    without_data_ = 0;  // the records of a handshake have no data
    return result;
}

TlsSwitch::Outcome TlsSession::go_on_small() {
    const auto secrets = std::move(switch_);
    if (!secrets) return {nullptr, TlsIdle::setting};
    auto outcome = secrets->go_on(ssl(), rest_);
    // Without a shutdown, OpenSSL would treat the session as failed when its object is freed.
    if (outcome.small) SSL_set_shutdown(ssl(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    return outcome;
}

ssize_t TlsSession::receive(void* buffer, std::size_t size) {
    begin_call();
    ahead_ = rest_;
    const int result = is_flooded() ? -1 : SSL_read(ssl(), buffer, at_most_int(size));
    if (!rest_.empty()) rest_ = std::string(std::exchange(ahead_, {}));
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
    // The peer has closed its side of TLS before the connection broke. This is an error, because
    // the flush would loop for ever if it were progress of 0 bytes.
    errno = EPIPE;
    return -1;
}

}  // namespace pulsegate
