#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/auth/access.h"
#include "server/auth/jwk_set.h"

namespace pulsegate {

struct JwtSettings {
    std::vector<std::string> secret_files;      ///< for HS256: 32 bytes or more
    std::vector<std::string> public_key_files;  ///< PEM: RSA for RS256, P-256 for ES256, Ed25519
    std::string issuer;                         ///< what `iss` must be; empty: not checked
    std::string audience;                       ///< what must be in `aud`; empty: not checked
    bool require_expiry = true;
};

/// The claims of a valid token.
struct JwtClaims {
    std::string user;                    ///< `sub`
    std::optional<std::int64_t> expiry;  ///< `exp`, seconds since 1970: invalid from then on
    std::optional<std::int64_t> issued;  ///< `iat`
    std::optional<AccessRules> rules;    ///< `acl`, replaces the gateway's rules; empty: no access
};

/// Why a token is not accepted, for the log; "it" is the token: "it is expired". Never contains
/// parts of the token.
struct JwtRefusal {
    std::string why;
    bool forged = false;       ///< not signed by any of our keys
    bool unknown_key = false;  ///< the same, but it names a key that we don't have
};

/// Checks signed tokens (RFC 7519, compact serialization) as passwords.
///
/// The type of a key decides its algorithm, and a token's `alg` only selects among the keys: a
/// public key is never used as a secret, and there is no `none`. A token whose `kid` is the name of
/// a key file, with or without its extension, is checked with that key alone. If the `kid` is the
/// id of keys from the key server, the token is checked with those. All other tokens are checked
/// with all keys of their algorithm.
///
/// `exp` has no leeway; `nbf` and `iat` may be 60 s ahead of this machine's clock.
///
/// Immutable once loaded: any number of threads may verify at the same time.
class JwtVerifier {
public:
    /// Throws std::runtime_error that names the file and the remedy.
    explicit JwtVerifier(const JwtSettings& settings);
    ~JwtVerifier();
    JwtVerifier(JwtVerifier&&) noexcept;
    JwtVerifier& operator=(JwtVerifier&&) noexcept;

    /// `now` in seconds since 1970. `served`: keys of a key server, or null.
    [[nodiscard]] std::variant<JwtClaims, JwtRefusal> verify(std::string_view token,
                                                             std::int64_t now,
                                                             const JwkSet* served = nullptr) const;

    /// Names the secret files that other users of the machine may read, with the remedy.
    const std::vector<std::string>& warnings() const { return warnings_; }

private:
    struct Key;
    struct SignedToken;

    void add_secret(const std::string& path);
    void add_public_key(const std::string& path);
    bool names_file(std::string_view kid) const;
    JwtRefusal judge_signature(const SignedToken& token, const JwkSet* served) const;

    std::vector<std::unique_ptr<Key>> keys_;
    std::string issuer_;
    std::string audience_;
    bool require_expiry_;
    std::vector<std::string> warnings_;
};

}  // namespace pulsegate
