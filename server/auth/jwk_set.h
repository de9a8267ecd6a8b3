#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// A public key that an identity provider publishes.
struct Jwk {
    std::string kid{};             ///< "": the key has no id
    std::string_view algorithm{};  ///< RS256, ES256 or EdDSA, by the key's type
    std::shared_ptr<EVP_PKEY> key{};

    bool operator==(const Jwk& other) const {
        return kid == other.kid && EVP_PKEY_eq(key.get(), other.key.get()) == 1;
    }
};

/// The public keys of a key server that tokens are checked with.
struct JwkSet {
    std::vector<Jwk> keys{};

    bool has(std::string_view kid) const;
};

inline constexpr std::size_t most_jwk_set_bytes = 256 * 1024;

struct JwkReading {
    JwkSet set{};
    std::size_t unusable = 0;  ///< keys for something else, such as encryption
    std::string trouble{};     ///< why the set has no usable key; "": it has one
};

/// Reads a JWK set (RFC 7517, section 5), up to 100 keys. A key that can't check our tokens is left
/// out: another type, curve, `use` or `alg`, a short RSA key, or a secret one.
JwkReading read_jwk_set(std::string_view document);

}  // namespace pulsegate
