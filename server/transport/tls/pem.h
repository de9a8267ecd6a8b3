#pragma once

#include <openssl/ssl.h>

#include <string_view>

namespace pulsegate {

// These functions read the text of PEM files for TLS. They return false if the text has no such
// object; OpenSSL has the reason.

/// The certificate of the gateway, and the certificates that signed it.
[[nodiscard]] bool use_certificates(SSL_CTX* context, std::string_view pem);
[[nodiscard]] bool use_private_key(SSL_CTX* context, std::string_view pem);
/// The CAs that may have signed certificates of clients. The gateway names them to clients.
[[nodiscard]] bool trust_authorities(SSL_CTX* context, std::string_view pem);
/// Their revoked certificates.
[[nodiscard]] bool use_revocations(SSL_CTX* context, std::string_view pem);

}  // namespace pulsegate
