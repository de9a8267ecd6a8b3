#include "loadgen/net/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace pulsegate::load {

namespace {

std::string last_tls_error() {
    const unsigned long error = ERR_get_error();
    ERR_clear_error();
    const char* reason = error ? ERR_reason_error_string(error) : nullptr;
    return reason ? reason : "unknown error of TLS";
}

bool is_ip_address(const std::string& host) {
    unsigned char address[sizeof(in6_addr)];
    return inet_pton(AF_INET, host.c_str(), address) == 1 ||
           inet_pton(AF_INET6, host.c_str(), address) == 1;
}

void expect_host(SSL* session, const std::string& host) {
    if (is_ip_address(host)) {
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str());
    } else {
        SSL_set1_host(session, host.c_str());
    }
}

}  // namespace

// -- the context --

TlsContext::TlsContext(Verify verify, const std::string& ca_file)
    : context_(SSL_CTX_new(TLS_client_method())), verify_(verify) {
    if (!context_) throw std::runtime_error("TLS: " + last_tls_error());
    // An idle client needs no buffers, and no connection resumes the session of another one.
    SSL_CTX_set_mode(get(), SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(get(), SSL_OP_NO_TICKET);
    if (verify == Verify::no) return;
    SSL_CTX_set_verify(get(), SSL_VERIFY_PEER, nullptr);
    const int loaded = ca_file.empty() ? SSL_CTX_set_default_verify_paths(get())
                                       : SSL_CTX_load_verify_file(get(), ca_file.c_str());
    if (loaded != 1)
        throw std::runtime_error("can't read the certificates of " + ca_file + ": " +
                                 last_tls_error());
}

void TlsContext::Free::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

// -- what OpenSSL reads and writes --

struct TlsSession::Io {
    static Transfer& transfer(BIO* bio) { return *static_cast<Transfer*>(BIO_get_data(bio)); }

    static int read(BIO* bio, char* to, int size) {
        BIO_clear_retry_flags(bio);
        Bytes& in = transfer(bio).in;
        if (in.empty()) {
            BIO_set_retry_read(bio);
            return -1;
        }
        const std::size_t taken = std::min(in.size(), static_cast<std::size_t>(size));
        std::memcpy(to, in.data(), taken);
        in = in.subspan(taken);
        return static_cast<int>(taken);
    }

    static int write(BIO* bio, const char* from, int size) {
        transfer(bio).out->append(from, static_cast<std::size_t>(size));
        return size;
    }

    static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

    static BIO_METHOD* make_method() {
        BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "bytes");
        if (!method) throw std::bad_alloc();
        BIO_meth_set_read(method, read);
        BIO_meth_set_write(method, write);
        BIO_meth_set_ctrl(method, control);
        return method;
    }

    static const BIO_METHOD* method() {
        static const std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)> only(make_method(),
                                                                                BIO_meth_free);
        return only.get();
    }
};

// -- a session --

TlsSession::TlsSession(const TlsContext& context, const std::string& host)
    : session_(SSL_new(context.get())) {
    BIO* bio = BIO_new(Io::method());
    if (!session_ || !bio) throw std::bad_alloc();
    BIO_set_data(bio, &transfer_);
    BIO_set_init(bio, 1);
    SSL_set_bio(session_.get(), bio, bio);
    SSL_set_connect_state(session_.get());
    if (!is_ip_address(host)) SSL_set_tlsext_host_name(session_.get(), host.c_str());
    if (context.verifies()) expect_host(session_.get(), host);
}

void TlsSession::Free::operator()(SSL* session) const { SSL_free(session); }

TlsSession::Received TlsSession::receive(Bytes cipher, std::span<std::uint8_t> plain,
                                         Buffer& answer) {
    transfer_ = {cipher, &answer};
    Received result;
    if (shake_hands(result)) read(plain, result);
    return result;
}

bool TlsSession::shake_hands(Received& result) {
    if (SSL_is_init_finished(session_.get())) return true;
    const int status = SSL_do_handshake(session_.get());
    if (status == 1) return true;
    fail(result, status);
    if (result.state == State::closed) result = {State::failed, 0, "closed during the handshake"};
    return false;
}

void TlsSession::read(std::span<std::uint8_t> plain, Received& result) {
    result.state = State::open;
    for (;;) {
        const auto room = plain.subspan(result.size);
        std::size_t size = 0;
        const int status = SSL_read_ex(session_.get(), room.data(), room.size(), &size);
        if (status != 1) return fail(result, status);
        result.size += size;
    }
}

// Leaves the state as it is if only more bytes are needed.
void TlsSession::fail(Received& result, int status) const {
    switch (SSL_get_error(session_.get(), status)) {
        case SSL_ERROR_WANT_READ: return;
        case SSL_ERROR_ZERO_RETURN: result.state = State::closed; return;
        default: break;
    }
    result.state = State::failed;
    const long verified = SSL_get_verify_result(session_.get());
    result.cause = verified == X509_V_OK ? last_tls_error()
                                         : std::string("the certificate is not accepted: ") +
                                               X509_verify_cert_error_string(verified);
    ERR_clear_error();
}

void TlsSession::send(std::string_view plain, Buffer& cipher) {
    transfer_ = {{}, &cipher};
    std::size_t written = 0;
    // A connection that has failed can't send. The failure was reported when it was noticed.
    if (!plain.empty() && SSL_write_ex(session_.get(), plain.data(), plain.size(), &written) != 1)
        ERR_clear_error();
}

void TlsSession::finish(Buffer& cipher) {
    transfer_ = {{}, &cipher};
    if (SSL_is_init_finished(session_.get())) SSL_shutdown(session_.get());
    ERR_clear_error();
}

}  // namespace pulsegate::load
