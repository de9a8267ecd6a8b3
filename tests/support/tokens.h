#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

inline const std::string secret = "a secret of more than thirty-two bytes";
inline const std::string usual_claims = R"({"sub":"alice","exp":1800000001})";

std::string base64url(std::string_view bytes);

/// A key pair of the tests' own, made by OpenSSL.
class Signer {
public:
    explicit Signer(EVP_PKEY* key);

    std::string public_pem() const;
    std::string private_pem() const;
    std::string sign(const std::string& text) const;

private:
    std::shared_ptr<EVP_PKEY> key_;
};

const Signer& rsa();
const Signer& other_rsa();
Signer ec(const char* curve = "P-256");
Signer ed25519();

/// By HMAC with SHA-256.
std::string hmac(const std::string& key, const std::string& text);

// Tokens (RFC 7519) with these headers and claims.

std::string unsigned_token(const std::string& header, const std::string& claims);
std::string hs256(const std::string& claims, const std::string& header = R"({"alg":"HS256"})",
                  const std::string& key = secret);
std::string signed_by(const Signer& signer, const std::string& header,
                      const std::string& claims = usual_claims);

}  // namespace pulsegate
