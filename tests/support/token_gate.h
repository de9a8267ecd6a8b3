#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "server/auth/jwt.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tokens.h"

namespace pulsegate {

/// When tokens are shown, if a test does not say.
inline constexpr std::int64_t token_time = 1'800'000'000;

/// A verifier and the files of its keys.
struct TokenGate {
    TemporaryFolder folder;
    JwtSettings settings;

    TokenGate& with_secret(const std::string& name = "secret", const std::string& text = secret) {
        settings.secret_files.push_back(folder.write(name, text));
        ::chmod(settings.secret_files.back().c_str(), 0600);
        return *this;
    }
    TokenGate& with_key(const std::string& name, const std::string& pem) {
        settings.public_key_files.push_back(folder.write(name, pem));
        return *this;
    }

    /// The user, or the refusal after a "!".
    std::string ask(std::string_view token, std::int64_t when = token_time) const {
        const auto answer = JwtVerifier(settings).verify(token, when);
        if (const auto* refusal = std::get_if<JwtRefusal>(&answer)) return "!" + refusal->why;
        return std::get<JwtClaims>(answer).user;
    }

    JwtClaims claims(std::string_view token) const {
        const auto answer = JwtVerifier(settings).verify(token, token_time);
        const auto* claims = std::get_if<JwtClaims>(&answer);
        REQUIRE(claims);
        return *claims;
    }
};

}  // namespace pulsegate
