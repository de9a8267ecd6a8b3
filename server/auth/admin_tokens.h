#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pulsegate {

/// The rights of a token of the HTTP API. Each role includes those before it.
enum class AdminRole : std::uint8_t {
    read,
    publish,  ///< messages, now or later
    operate,  ///< all
};

std::string_view name_of(AdminRole role);
std::optional<AdminRole> role_named(std::string_view name);

/// A token of the HTTP API: its name, its role and its hash. Tokens are random, so a plain SHA-256
/// protects them: an attacker can't try 2^256 of them.
struct AdminToken {
    using Hash = std::array<unsigned char, 32>;

    std::string name;
    AdminRole role = AdminRole::read;
    Hash hash{};
};

/// All tokens that the HTTP API accepts. Immutable, so any thread may use it.
class AdminTokens {
public:
    AdminTokens() = default;
    explicit AdminTokens(std::vector<AdminToken> tokens) : tokens_(std::move(tokens)) {}

    bool empty() const { return tokens_.empty(); }

    /// Null if the token is wrong. It takes the same time for every token.
    const AdminToken* find(std::string_view token) const;

private:
    std::vector<AdminToken> tokens_;
};

/// Reads the files of `admin-token-file` (one token, named admin, with all rights) and of
/// `admin-tokens-file` (lines NAME:ROLE:HASH). "" means no such file. Throws std::runtime_error
/// that names the wrong line and the remedy.
AdminTokens read_admin_tokens(const std::string& token_file, const std::string& tokens_file);

/// Makes a new token.
std::string random_admin_token();

/// The line of a token in `admin-tokens-file`. Throws std::runtime_error if the name is invalid.
std::string admin_token_line(std::string_view name, AdminRole role, std::string_view token);

}  // namespace pulsegate
