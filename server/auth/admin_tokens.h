#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pulsegate {

/// What a token of the HTTP API allows; each role includes those before it.
enum class AdminRole : std::uint8_t {
    read,
    publish,  ///< messages, now or later
    operate,  ///< all
};

std::string_view name_of(AdminRole role);
std::optional<AdminRole> role_named(std::string_view name);

/// A token of the HTTP API: its name, its role and its hash. Tokens are random, so a plain SHA-256
/// protects them: nobody can try 2^256 of them.
struct AdminToken {
    using Hash = std::array<unsigned char, 32>;

    std::string name;
    AdminRole role = AdminRole::read;
    Hash hash{};
};

/// All tokens that the HTTP API takes. Immutable: any thread may ask.
class AdminTokens {
public:
    AdminTokens() = default;
    explicit AdminTokens(std::vector<AdminToken> tokens) : tokens_(std::move(tokens)) {}

    bool empty() const { return tokens_.empty(); }

    /// Null: the token is wrong. It takes the same time whichever it is.
    const AdminToken* find(std::string_view token) const;

private:
    std::vector<AdminToken> tokens_;
};

/// Of the files of `admin-token-file` (one token, which may do all and is named admin) and of
/// `admin-tokens-file` (lines NAME:ROLE:HASH); "" stands for one that is not named. Throws
/// std::runtime_error that says which line is wrong, and the cure.
AdminTokens read_admin_tokens(const std::string& token_file, const std::string& tokens_file);

/// A new token.
std::string random_admin_token();

/// The line of a token in `admin-tokens-file`. Throws std::runtime_error if the name is none.
std::string admin_token_line(std::string_view name, AdminRole role, std::string_view token);

}  // namespace pulsegate
