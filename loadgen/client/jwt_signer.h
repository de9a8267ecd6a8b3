#pragma once

#include <openssl/ossl_typ.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pulsegate::load {

/// Signs tokens (RFC 7519, compact serialization) with `sub`, `iat`, `exp` and `jti`, each once.
class JwtSigner {
public:
    /// HS256. The secret is the text of the file, without the end of its last line.
    static JwtSigner with_secret(const std::string& file);
    /// RS256 or ES256, by the type of this private key (PEM). Both throw `std::runtime_error`,
    /// which names the file.
    static JwtSigner with_key(const std::string& file);

    /// Does a signature take much longer than a login? Signatures with private keys do.
    bool slow() const { return slow_; }

    /// `now` is in seconds since 1970, `id` is for `jti`.
    std::string sign(std::string_view user, std::string_view id, std::int64_t now,
                     std::chrono::seconds life) const;

private:
    struct Free {
        void operator()(EVP_PKEY* key) const;
    };
    using Key = std::unique_ptr<EVP_PKEY, Free>;

    JwtSigner(Key key, std::string_view algorithm);

    std::string signature(std::string_view text) const;

    Key key_;
    std::string header_;  ///< encoded, with its dot
    bool slow_ = false;
    bool elliptic_ = false;  ///< OpenSSL's form of the signature is not JWT's
};

/// Base64 of RFC 4648, section 5, without padding.
std::string base64url(std::string_view bytes);

}  // namespace pulsegate::load
