#pragma once

#include <openssl/ssl.h>

#include <string_view>

namespace pulsegate {

// What TLS reads from the text of PEM files. All return false if there is nothing of the kind in
// it, and OpenSSL knows why.

/// The certificate that the gateway shows, and those that signed it.
[[nodiscard]] bool use_certificates(SSL_CTX* context, std::string_view pem);
[[nodiscard]] bool use_private_key(SSL_CTX* context, std::string_view pem);
/// Who may have signed the certificates of clients, and is named to them.
[[nodiscard]] bool trust_authorities(SSL_CTX* context, std::string_view pem);
/// Which of these certificates are revoked.
[[nodiscard]] bool use_revocations(SSL_CTX* context, std::string_view pem);

}  // namespace pulsegate
