#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/transport/tls/ticket_keys.h"
#include "server/transport/tls/tls_session.h"

namespace pulsegate {

/// The shared state of the gateway's TLS listeners: certificates with their keys, and the CAs of
/// client certificates. It never changes. When certificates are read again, there is a new Tls, and
/// connections keep the Tls that they began with. Any thread may use it.
class Tls {
public:
    struct Settings {
        std::vector<std::string> certificates;  ///< PEM files, each with its chain
        std::vector<std::string> keys;          ///< their private keys, in the same order
        std::string client_ca;   ///< PEM file; clients must present a certificate that one of these
                                 ///< CAs signed
        std::string client_crl;  ///< PEM file with revoked client certificates; "": none
        bool allow_1_2 = true;
        TlsSession::Idle idle = TlsSession::Idle::small;  ///< the state that is kept for a client
    };

    /// Throws std::runtime_error that names the file and the remedy.
    explicit Tls(const Settings& settings);

    /// A new session on this socket, which waits for the client's hello. Null if there is no
    /// memory.
    std::unique_ptr<TlsSession> accept(int socket) const {
        return TlsSession::accept(contexts_.front().get(), socket, idle_);
    }

    /// A session for a connection that other code reads and writes; null if there is no memory. It
    /// must not outlive this object.
    SSL* new_session() const { return SSL_new(contexts_.front().get()); }

    TicketKeys& ticket_keys() { return ticket_keys_; }
    const TicketKeys& ticket_keys() const { return ticket_keys_; }

    /// The expiry of a certificate, or of the certificate in its chain that expires first.
    struct Expiry {
        std::string file;
        std::int64_t end;  ///< seconds since 1970
    };
    /// One for each certificate, in the same order.
    const std::vector<Expiry>& expiries() const { return expiries_; }

private:
    struct ContextDeleter {
        void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    };
    using Context = std::unique_ptr<SSL_CTX, ContextDeleter>;

    Context make_context(const Settings& settings, const std::string& certificate,
                         const std::string& key);
    static int choose_by_name(SSL* ssl, int* alert, void* self);

    const TlsSession::Idle idle_;
    TicketKeys ticket_keys_;
    std::vector<Context> contexts_;  ///< one for each certificate; the first is the usual one
    std::vector<Expiry> expiries_;
};

/// The facts about a certificate that a client presented.
struct ClientCertificate {
    std::string name;     ///< the common name in UTF-8; "" if it has none
    std::int64_t expiry;  ///< seconds since 1970
};

/// Nothing if the client presented none.
std::optional<ClientCertificate> client_certificate(const SSL* ssl);

/// OpenSSL's latest error on this thread, in words. Empties its list of errors.
std::string tls_trouble();
/// The same for a handshake, including the fault of the peer's certificate.
std::string tls_trouble(const SSL* handshake);

}  // namespace pulsegate
