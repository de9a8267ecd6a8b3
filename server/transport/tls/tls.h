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

/// What the gateway's TLS listeners share: certificates with their keys, and whose client
/// certificates they trust. It never changes: certificates that are read anew are a new Tls, and
/// connections keep the one that they began with. Any thread may use it.
class Tls {
public:
    struct Settings {
        std::vector<std::string> certificates;  ///< PEM files, each with its chain
        std::vector<std::string> keys;          ///< their private keys, in the same order
        std::string client_ca;   ///< PEM file; clients must show a certificate that it signed
        std::string client_crl;  ///< PEM file: which of these are revoked; "": none
        bool allow_1_2 = true;
        TlsSession::Idle idle = TlsSession::Idle::small;  ///< what is kept of a client
    };

    /// Throws std::runtime_error that names the file and the remedy.
    explicit Tls(const Settings& settings);

    /// A session on that socket that waits for the client's hello. Null if there is no memory.
    std::unique_ptr<TlsSession> accept(int socket) const {
        return TlsSession::accept(contexts_.front().get(), socket, idle_);
    }

    /// Of a connection that some other code reads and writes; null if there is no memory. It must
    /// not outlive this.
    SSL* new_session() const { return SSL_new(contexts_.front().get()); }

    TicketKeys& ticket_keys() { return ticket_keys_; }
    const TicketKeys& ticket_keys() const { return ticket_keys_; }

    /// When a certificate, or the first of its chain, stops being valid.
    struct Expiry {
        std::string file;
        std::int64_t end;  ///< seconds since 1970
    };
    /// Of each certificate, in their order.
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

/// What is known of a certificate that a client showed.
struct ClientCertificate {
    std::string name;     ///< the common name in UTF-8; "" if it has none
    std::int64_t expiry;  ///< seconds since 1970
};

/// Nothing if the client showed none.
std::optional<ClientCertificate> client_certificate(const SSL* ssl);

/// What OpenSSL last complained about on this thread, in words; empties its list.
std::string tls_trouble();
/// The same of a handshake, with what is wrong with the peer's certificate.
std::string tls_trouble(const SSL* handshake);

}  // namespace pulsegate
