#include "server/transport/tls/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "server/base/certificate_expiry.h"
#include "server/base/files/whole_file.h"
#include "server/transport/tls/pem.h"

namespace pulsegate {

namespace {

/// Throws if other users can read the key.
void check_private(const std::string& key) {
    struct stat about {};
    if (::stat(key.c_str(), &about) != 0)
        throw std::runtime_error(fmt::format("tls-key: {}: {}; name a PEM file with a private key",
                                             key, std::strerror(errno)));
    constexpr mode_t others = S_IROTH | S_IWOTH;
    if (about.st_mode & others)
        throw std::runtime_error(
            fmt::format("tls-key: every user can read {}; run chmod o-rwx {}", key, key));
}

/// Chooses a known name in ALPN. A client that offers only other names is served, too, like a
/// client without ALPN.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
    for (const std::string_view known : {"mqtt", "http/1.1"}) {
        for (unsigned int at = 0; at < offered_size; at += 1u + offered[at]) {
            const std::string_view name(reinterpret_cast<const char*>(offered + at + 1),
                                        offered[at]);
            if (name != known) continue;
            *chosen = offered + at + 1;
            *size = offered[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_NOACK;
}

std::string common_name(X509* certificate) {
    const X509_NAME* const subject = X509_get_subject_name(certificate);
    const int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (place < 0) return "";
    unsigned char* text = nullptr;
    const int size =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)));
    if (size < 0) return "";
    std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
    OPENSSL_free(text);
    return name;
}

/// Refuses clients with a revoked certificate. If the list has expired, all clients are refused
/// (RFC 5280, section 6.3), because it does not show later revocations.
void check_revocation(SSL_CTX* context, const std::string& list) {
    if (!use_revocations(context, read_whole_file("tls-client-crl", list).text))
        throw std::runtime_error(
            fmt::format("tls-client-crl: {}: {}; name a PEM file with the revocation list of your "
                        "clients' authority",
                        list, tls_trouble()));
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_CRL_CHECK);
}

}  // namespace

std::string tls_trouble() {
    std::string words = "unknown";
    int system = 0;  // error number of the file or socket, because OpenSSL's text does not name it
    char line[256];
    while (const auto error = ERR_get_error()) {
        if (ERR_SYSTEM_ERROR(error)) system = ERR_GET_REASON(error);
        ERR_error_string_n(error, line, sizeof line);
        const char* reason = ERR_reason_error_string(error);
        words = reason ? reason : line;
    }
    return system == 0 ? words : std::strerror(system);
}

std::string tls_trouble(const SSL* handshake) {
    const auto verified = SSL_get_verify_result(handshake);
    if (verified == X509_V_OK) return tls_trouble();
    return tls_trouble() + ": " + X509_verify_cert_error_string(verified);
}

Tls::Context Tls::make_context(const Settings& settings, const std::string& certificate,
                               const std::string& key) {
    ERR_clear_error();
    Context context(SSL_CTX_new(TLS_server_method()));
    if (!context) throw std::runtime_error("tls: " + tls_trouble());
    SSL_CTX* const raw = context.get();
    SSL_CTX_set_min_proto_version(raw, settings.allow_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION);
    SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    // Idle clients return their buffers. A write may be partial: as much as the socket accepts.
    SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // Only suites with forward secrecy: an attacker who steals the key later can't read earlier
    // sessions. All suites of TLS 1.3 have it.
    SSL_CTX_set_cipher_list(raw, "ECDHE+AESGCM:ECDHE+CHACHA20");
    // AES-128 is first: the key exchange and the usual certificates are not stronger. It makes
    // handshakes, records and idle clients cheaper.
    SSL_CTX_set_ciphersuites(
        raw, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
    // Tickets contain their sessions, so no cache is needed. A cache would hold a session for each
    // client.
    SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(raw, 1);
    ticket_keys_.use_for(raw);
    if (settings.idle == TlsSession::Idle::small) TlsSession::prepare(raw);
    SSL_CTX_set_alpn_select_cb(raw, choose_protocol, nullptr);
    static constexpr unsigned char name[] = "pulsegate";
    SSL_CTX_set_session_id_context(raw, name, sizeof name - 1);

    if (!use_certificates(raw, read_whole_file("tls-cert", certificate).text))
        throw std::runtime_error(
            fmt::format("tls-cert: {}: {}; name a PEM file with a certificate and its chain",
                        certificate, tls_trouble()));
    check_private(key);
    if (!use_private_key(raw, read_whole_file("tls-key", key).text))
        throw std::runtime_error(
            fmt::format("tls-key: {}: {}; name the PEM file with the private key of {}", key,
                        tls_trouble(), certificate));
    if (settings.client_ca.empty()) return context;
    if (!trust_authorities(raw, read_whole_file("tls-client-ca", settings.client_ca).text))
        throw std::runtime_error(
            fmt::format("tls-client-ca: {}: {}; name a PEM file with the certificates that sign "
                        "your clients'",
                        settings.client_ca, tls_trouble()));
    SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    if (!settings.client_crl.empty()) check_revocation(raw, settings.client_crl);
    // No tickets: when a session is resumed, the client's certificate is not checked again.
    SSL_CTX_set_num_tickets(raw, 0);
    SSL_CTX_set_options(raw, SSL_OP_NO_TICKET);
    return context;
}

Tls::Tls(const Settings& settings) : idle_(settings.idle) {
    if (settings.certificates.empty())
        throw std::runtime_error(
            "tls-cert: no certificate is named; use --tls-cert FILE --tls-key FILE");
    if (settings.certificates.size() != settings.keys.size())
        throw std::runtime_error(fmt::format(
            "tls-key: {} keys for {} certificates; name one for each, in the same order",
            settings.keys.size(), settings.certificates.size()));
    contexts_.reserve(settings.certificates.size());
    expiries_.reserve(settings.certificates.size());
    for (std::size_t i = 0; i < settings.certificates.size(); ++i) {
        contexts_.push_back(make_context(settings, settings.certificates[i], settings.keys[i]));
        expiries_.push_back({settings.certificates[i], first_expiry(contexts_.back().get())});
    }
    SSL_CTX_set_tlsext_servername_callback(contexts_.front().get(), choose_by_name);
    SSL_CTX_set_tlsext_servername_arg(contexts_.front().get(), this);
}

/// The first certificate for the name that the client asks for (RFC 6066).
int Tls::choose_by_name(SSL* ssl, int*, void* self) {
    const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (!name) return SSL_TLSEXT_ERR_NOACK;
    const auto& contexts = static_cast<const Tls*>(self)->contexts_;
    if (contexts.size() == 1) return SSL_TLSEXT_ERR_OK;  // comparing names is slow
    for (const Context& context : contexts) {
        X509* const certificate = SSL_CTX_get0_certificate(context.get());
        if (X509_check_host(certificate, name, std::strlen(name), 0, nullptr) != 1) continue;
        SSL_set_SSL_CTX(ssl, context.get());
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_OK;
}

std::optional<ClientCertificate> client_certificate(const SSL* ssl) {
    X509* const certificate = SSL_get0_peer_certificate(ssl);
    if (!certificate) return std::nullopt;
    return ClientCertificate{common_name(certificate), expiry_of(certificate)};
}

}  // namespace pulsegate
