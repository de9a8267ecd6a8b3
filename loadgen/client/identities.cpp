#include "loadgen/client/identities.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <utility>

namespace pulsegate::load {

namespace {

constexpr std::string_view placeholder = "{n}";

std::string filled_in(std::string_view pattern, std::uint32_t number) {
    std::string text;
    for (;;) {
        const auto at = pattern.find(placeholder);
        text += pattern.substr(0, at);
        if (at == std::string_view::npos) return text;
        text += std::to_string(number);
        pattern.remove_prefix(at + placeholder.size());
    }
}

bool says_who(const IdentitySettings& settings) {
    return !settings.user.empty() || !settings.users_file.empty();
}

void check_settings(const IdentitySettings& settings) {
    const bool tokens = !settings.jwt_secret_file.empty() || !settings.jwt_key_file.empty();
    if (!settings.jwt_secret_file.empty() && !settings.jwt_key_file.empty())
        throw std::runtime_error("tokens are signed with a secret or with a key, not with both");
    if (!settings.users_file.empty() && !settings.user.empty())
        throw std::runtime_error("users are from a file or from a pattern, not from both");
    if (!settings.password.empty() && (tokens || !settings.users_file.empty()))
        throw std::runtime_error(
            "passwords are from a pattern, from the users' file or signed tokens, only one of "
            "them");
    if ((tokens || !settings.password.empty()) && !says_who(settings))
        throw std::runtime_error("a password needs a user: a pattern such as user{n}, or a file");
}

std::string random_text() {
    std::random_device source;
    const std::string_view digits = "0123456789abcdef";
    std::string text;
    for (int i = 0; i < 16; ++i) text += digits[source() % digits.size()];
    return text;
}

}  // namespace

Identities::Identities(IdentitySettings settings) : settings_(std::move(settings)) {
    check_settings(settings_);
    if (!settings_.users_file.empty()) read_users();
    if (!settings_.jwt_secret_file.empty())
        signer_ = JwtSigner::with_secret(settings_.jwt_secret_file);
    if (!settings_.jwt_key_file.empty()) signer_ = JwtSigner::with_key(settings_.jwt_key_file);
    if (signer_) token_ids_ = random_text();
}

void Identities::read_users() {
    const std::string& file = settings_.users_file;
    std::ifstream in(file, std::ios::binary);
    users_.assign(std::istreambuf_iterator<char>(in), {});
    if (!in || users_.size() > UINT32_MAX) throw std::runtime_error("can't read " + file);

    std::unordered_map<std::string_view, std::uint32_t> first;
    if (!users_.empty() && users_.back() != '\n') users_ += '\n';
    std::size_t line = 0;
    for (std::size_t at = 0; at < users_.size(); at = users_.find('\n', at) + 1) {
        ++line;
        if (users_[at] == '\n') continue;
        const auto text = std::string_view(users_).substr(at, users_.find('\n', at) - at);
        if (text.find(':') == std::string_view::npos || text.front() == ':')
            throw std::runtime_error(file + ", line " + std::to_string(line) +
                                     ": expected NAME:PASSWORD");
        const auto number = static_cast<std::uint32_t>(lines_.size());
        const auto known = first.emplace(text.substr(0, text.find(':')), number).first;
        lines_.push_back({static_cast<std::uint32_t>(at), known->second});
    }
    if (lines_.empty()) throw std::runtime_error(file + " has no users: expected NAME:PASSWORD");
}

std::string_view Identities::line_of(std::uint32_t number) const {
    const std::size_t at = lines_[number % lines_.size()].at;
    const auto line = std::string_view(users_).substr(at, users_.find('\n', at) - at);
    return line.substr(0, line.find_last_not_of('\r') + 1);
}

Identity Identities::of(std::uint32_t number) {
    Identity identity;
    identity.client_id = client_id(number);
    if (!says_who(settings_)) return identity;
    identity.user = user(number);
    identity.password = password(number, *identity.user);
    return identity;
}

std::string Identities::client_id(std::uint32_t number) const {
    return filled_in(settings_.client_id, number);
}

std::string Identities::user(std::uint32_t number) const {
    if (lines_.empty()) return filled_in(settings_.user, number);
    const auto line = line_of(number);
    return std::string(line.substr(0, line.find(':')));
}

std::uint32_t Identities::first_of_user(std::uint32_t number) const {
    if (!lines_.empty()) return lines_[number % lines_.size()].first;
    const bool shared =
        !settings_.user.empty() && settings_.user.find(placeholder) == std::string::npos;
    return shared ? 0 : number;
}

std::optional<std::string> Identities::password(std::uint32_t number, std::string_view user) {
    if (signer_) return token(number, user);
    if (!lines_.empty()) return std::string(line_of(number).substr(user.size() + 1));
    if (settings_.password.empty()) return std::nullopt;
    return filled_in(settings_.password, number);
}

std::string Identities::token(std::uint32_t number, std::string_view user) {
    Token& last = given_[number];
    if (!last.text.empty() && last.good_until > std::chrono::steady_clock::now()) return last.text;
    last = sign(user);
    return signer_->slow() ? last.text : std::exchange(last.text, {});
}

Identities::Token Identities::sign(std::string_view user) {
    const auto now = std::chrono::steady_clock::now();
    const auto today = std::chrono::system_clock::now().time_since_epoch();
    const auto issued = std::chrono::floor<std::chrono::seconds>(today);
    return {signer_->sign(user, token_ids_ + std::to_string(++tokens_), issued.count(),
                          settings_.jwt_life),
            now + settings_.jwt_life / 2, now + settings_.jwt_life - (today - issued)};
}

std::chrono::steady_clock::time_point Identities::token_ends(std::uint32_t number) const {
    const auto found = given_.find(number);
    return found == given_.end() ? std::chrono::steady_clock::time_point::max()
                                 : found->second.ends;
}

}  // namespace pulsegate::load
