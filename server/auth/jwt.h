#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/auth/access.h"

namespace pulsegate {

struct JwtSettings {
    std::vector<std::string> secret_files;      ///< for HS256: 32 bytes or more
    std::vector<std::string> public_key_files;  ///< PEM: RSA for RS256, P-256 for ES256, Ed25519
    std::string issuer;                         ///< what `iss` must be; empty: not asked
    std::string audience;                       ///< what must be in `aud`; empty: not asked
    bool require_expiry = true;
};

/// What a good token says.
struct JwtClaims {
    std::string user;                    ///< `sub`
    std::optional<std::int64_t> expiry;  ///< seconds since 1970: from then on it is worth nothing
    std::optional<AccessRules> rules;    ///< `acl`: in place of the gateway's; an empty one: none
};

/// Why a token is not accepted, for the log, "it" being the token: "it is expired". Never contains
/// anything of the token.
struct JwtRefusal {
    std::string why;
    bool forged = false;  ///< none of our keys has signed it
};

/// Checks signed tokens (RFC 7519, compact serialization) as passwords.
///
/// A key decides by its own type which algorithm it is for, and a token's `alg` only which keys are
/// asked: a public key is never a secret, and there is no `none`. A token whose `kid` is the name
/// of a key file, with or without its extension, is for that key alone; any other is tried with all
/// keys of its algorithm.
///
/// `exp` has no leeway; `nbf` and `iat` may be 60 s ahead of this machine's clock.
///
/// It is loaded once and does not change: any number of threads may verify at the same time.
class JwtVerifier {
public:
    /// Throws std::runtime_error that names the file and the remedy.
    explicit JwtVerifier(const JwtSettings& settings);
    ~JwtVerifier();
    JwtVerifier(JwtVerifier&&) noexcept;
    JwtVerifier& operator=(JwtVerifier&&) noexcept;

    /// `now` in seconds since 1970.
    std::variant<JwtClaims, JwtRefusal> verify(std::string_view token, std::int64_t now) const;

    /// Secrets that others may read, with the remedy.
    const std::vector<std::string>& warnings() const { return warnings_; }

private:
    struct Key;

    void add_secret(const std::string& path);
    void add_public_key(const std::string& path);
    std::vector<const Key*> keys_for(std::string_view algorithm,
                                     std::optional<std::string_view> kid) const;

    std::vector<std::unique_ptr<Key>> keys_;
    std::string issuer_;
    std::string audience_;
    bool require_expiry_;
    std::vector<std::string> warnings_;
};

}  // namespace pulsegate
