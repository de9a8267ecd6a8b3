#include "server/auth/admin_tokens.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>

#include "server/auth/secret_file.h"
#include "server/base/text/lines.h"

namespace pulsegate {

namespace {

constexpr std::string_view role_names[] = {"read", "publish", "operate"};
constexpr std::size_t shortest_token = 16;
constexpr std::size_t longest_token_name = 64;
constexpr std::size_t most_tokens = 1000;

AdminToken::Hash token_hash(std::string_view token) {
    AdminToken::Hash hash{};
    SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
    return hash;
}

std::string hex_of(std::span<const unsigned char> bytes) {
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

std::optional<AdminToken::Hash> hash_in(std::string_view hex) {
    AdminToken::Hash hash{};
    if (hex.size() != 2 * hash.size()) return std::nullopt;
    constexpr std::string_view digits = "0123456789abcdef";
    for (std::size_t i = 0; i < hex.size(); ++i) {
        const auto digit = digits.find(hex[i]);
        if (digit == digits.npos) return std::nullopt;
        hash[i / 2] = static_cast<unsigned char>(hash[i / 2] * 16 + digit);
    }
    return hash;
}

bool is_token_name(std::string_view name) {
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
    };
    return !name.empty() && name.size() <= longest_token_name && std::ranges::all_of(name, fits);
}

AdminToken token_in(std::string_view line) {
    const auto first = line.find(':');
    const auto second = line.find(':', std::min(first, line.size() - 1) + 1);
    if (second == line.npos)
        throw std::runtime_error(
            "is not NAME:ROLE:HASH; pulsegate token NAME ROLE prints such a line");
    const auto name = line.substr(0, first);
    const auto role = role_named(line.substr(first + 1, second - first - 1));
    const auto hash = hash_in(line.substr(second + 1));
    if (!is_token_name(name))
        throw std::runtime_error("the name does not have 1 to 64 letters, digits, '.', '_' or '-'");
    if (!role) throw std::runtime_error("the role is not read, publish or operate");
    if (!hash)
        throw std::runtime_error(
            "the hash does not have 64 hexadecimal digits; it is the token's SHA-256, which "
            "pulsegate token NAME ROLE prints");
    return {.name = std::string(name), .role = *role, .hash = *hash};
}

std::vector<AdminToken> tokens_in(const std::string& path) {
    SecretFile file;
    try {
        file = read_secret_file(path);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("admin-tokens-file: {}", error.what()));
    }
    if (!file.warning.empty()) spdlog::warn("admin-tokens-file: {}", file.warning);
    std::vector<AdminToken> tokens;
    for (Lines lines(file.text); lines.next();) {
        if (lines.line().empty() || lines.line().starts_with('#')) continue;
        try {
            if (tokens.size() == most_tokens) throw std::runtime_error("has more than 1000 tokens");
            tokens.push_back(token_in(lines.line()));
        } catch (const std::runtime_error& wrong) {
            throw std::runtime_error(
                fmt::format("admin-tokens-file: {}:{}: {}", path, lines.number(), wrong.what()));
        }
    }
    if (tokens.empty())
        throw std::runtime_error(fmt::format(
            "admin-tokens-file: {}: has no token; pulsegate token NAME ROLE prints a line for it",
            path));
    return tokens;
}

}  // namespace

std::string_view name_of(AdminRole role) { return role_names[static_cast<std::size_t>(role)]; }

std::optional<AdminRole> role_named(std::string_view name) {
    for (const AdminRole role : {AdminRole::read, AdminRole::publish, AdminRole::operate})
        if (name_of(role) == name) return role;
    return std::nullopt;
}

const AdminToken* AdminTokens::find(std::string_view token) const {
    const auto hash = token_hash(token);
    const AdminToken* found = nullptr;
    for (const AdminToken& each : tokens_)
        if (CRYPTO_memcmp(each.hash.data(), hash.data(), hash.size()) == 0) found = &each;
    return found;
}

AdminTokens read_admin_tokens(const std::string& token_file, const std::string& tokens_file) {
    std::vector<AdminToken> tokens;
    if (!tokens_file.empty()) tokens = tokens_in(tokens_file);
    if (token_file.empty()) return AdminTokens(std::move(tokens));
    const std::string token = read_token("admin-token-file", token_file);
    if (token.size() < shortest_token)
        throw std::runtime_error(fmt::format(
            "admin-token-file: {}: no token of {} characters or more in its first line; openssl "
            "rand -hex 32 makes one",
            token_file, shortest_token));
    tokens.push_back({.name = "admin", .role = AdminRole::operate, .hash = token_hash(token)});
    return AdminTokens(std::move(tokens));
}

std::string random_admin_token() {
    AdminToken::Hash bytes{};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        throw std::runtime_error("the system has no random numbers");
    return hex_of(bytes);
}

std::string admin_token_line(std::string_view name, AdminRole role, std::string_view token) {
    if (!is_token_name(name))
        throw std::runtime_error(
            fmt::format("'{}' is not a name of 1 to 64 letters, digits, '.', '_' or '-'", name));
    return fmt::format("{}:{}:{}", name, name_of(role), hex_of(token_hash(token)));
}

}  // namespace pulsegate
