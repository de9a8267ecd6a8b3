#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "loadgen/client/jwt_signer.h"
#include "loadgen/scenario/identity_settings.h"

namespace pulsegate::load {

/// A client's identifier, its user and its password.
struct Identity {
    std::string client_id;
    std::optional<std::string> user;
    std::optional<std::string> password;
};

/// Makes identities when clients log in. Only tokens that take long to sign (RS256, ES256) are used
/// again, for half of their lifetime, as phones do.
class Identities {
public:
    /// Throws `std::runtime_error` that names the file and its line, or the settings that exclude
    /// each other.
    explicit Identities(IdentitySettings settings);

    Identity of(std::uint32_t number);
    std::string client_id(std::uint32_t number) const;
    /// The client's user name; empty if it has none. Presence is shown under this name.
    std::string user(std::uint32_t number) const;
    /// The first client with the same user name.
    std::uint32_t first_of_user(std::uint32_t number) const;
    /// When its latest token expires; never, if it has none.
    std::chrono::steady_clock::time_point token_ends(std::uint32_t number) const;

private:
    struct Token {
        std::string text;  ///< the token, if it is worth remembering
        std::chrono::steady_clock::time_point good_until;
        std::chrono::steady_clock::time_point ends;
    };
    struct Line {
        std::uint32_t at;     ///< where it begins in the file
        std::uint32_t first;  ///< the first line with the same user
    };

    void read_users();
    std::string_view line_of(std::uint32_t number) const;
    std::optional<std::string> password(std::uint32_t number, std::string_view user);
    std::string token(std::uint32_t number, std::string_view user);
    Token sign(std::string_view user);

    IdentitySettings settings_;
    std::string users_;  ///< the file
    std::vector<Line> lines_;
    std::optional<JwtSigner> signer_;
    std::string token_ids_;     ///< random; `jti` begins with it, so that processes differ
    std::uint64_t tokens_ = 0;  ///< signed
    std::unordered_map<std::uint32_t, Token> given_;  ///< the latest token of each client
};

}  // namespace pulsegate::load
