#include "server/login/authenticator.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "server/base/clock.h"

namespace pulsegate {

namespace {

/// Logins that may wait for a check: what a second or two can do. The others come again.
constexpr std::size_t most_waiting_checks = 2000;

/// Trouble with a file is told with the setting that named it.
template <class Load>
auto load_for(const char* setting, Load load) {
    try {
        return load();
    } catch (const std::exception& error) {
        throw std::runtime_error(fmt::format("{}: {}", setting, error.what()));
    }
}

/// Three parts, of which the first is an object of JSON in base64url. A password may have dots.
bool looks_like_token(std::string_view password) {
    return password.starts_with("eyJ") && std::count(password.begin(), password.end(), '.') == 2;
}

AuthResult refusal(std::string why, bool guessed) {
    return {.reason = Reason::bad_user_name_or_password, .why = std::move(why), .guessed = guessed};
}

/// By the client id alone it could be any user.
AuthResult anonymous(const Credentials& credentials) {
    if (credentials.client.empty()) return {};  // it is given one that nobody has
    return {.user = "anonymous/" + credentials.client};
}

AuthResult check_token(const JwtVerifier& tokens, std::string_view token) {
    const auto checked = tokens.verify(token, unix_now());
    if (const auto* refused = std::get_if<JwtRefusal>(&checked))
        return refusal("its token: " + refused->why, refused->forged);
    const auto& claims = std::get<JwtClaims>(checked);
    AuthResult result{.user = claims.user, .expiry = claims.expiry};
    if (claims.rules) result.rules = std::make_shared<AccessRules>(*claims.rules);
    return result;
}

}  // namespace

Authenticator::Authenticator(AuthenticatorSettings settings)
    : settings_(std::move(settings)),
      hook_(settings_.hook.url ? std::make_unique<AuthHook>(settings_.hook) : nullptr),
      files_(read_files()),
      threads_(std::max(1u, std::thread::hardware_concurrency())) {}

Authenticator::~Authenticator() { stop(); }

void Authenticator::stop() {
    threads_.stop();
    threads_.join();
    if (hook_) hook_->stop();
}

std::optional<HookCounters> Authenticator::hook_counters() const {
    if (!hook_) return std::nullopt;
    return hook_->counters();
}

std::shared_ptr<const Authenticator::Files> Authenticator::read_files() const {
    auto files = std::make_shared<Files>();
    if (!settings_.password_file.empty()) {
        files->passwords = load_for("password-file",
                                    [this] { return PasswordFile::load(settings_.password_file); });
        if (!files->passwords->warning().empty())
            spdlog::warn("password-file: {}", files->passwords->warning());
    }
    if (has_keys()) {
        files->tokens = load_for("jwt", [this] { return JwtVerifier(settings_.jwt); });
        for (const auto& warning : files->tokens->warnings()) spdlog::warn("jwt: {}", warning);
    }
    if (!settings_.access_file.empty())
        files->rules = load_for("access-file", [this] {
            return std::make_shared<AccessRules>(AccessRules::load(settings_.access_file));
        });
    else if (required() || settings_.user_by_certificate)
        files->rules = std::make_shared<AccessRules>(AccessRules::defaults());
    return files;
}

std::shared_ptr<const Authenticator::Files> Authenticator::files() const {
    const std::lock_guard lock(mutex_);
    return files_;
}

void Authenticator::reload() {
    auto fresh = read_files();
    if (hook_) hook_->use(hook_->read_files());
    const std::lock_guard lock(mutex_);
    files_ = std::move(fresh);
}

void Authenticator::authenticate(Credentials credentials, Answer answer) {
    if (waiting_.fetch_add(1) >= most_waiting_checks) {
        --waiting_;
        return answer({.reason = Reason::server_busy, .why = "too many logins wait to be checked"});
    }
    auto check = [this, credentials = std::move(credentials),
                  answer = std::move(answer)]() mutable {
        auto result = authenticate(credentials);
        --waiting_;
        if (result) return answer(std::move(*result));
        hook_->authenticate(std::move(credentials), std::move(answer));
    };
    boost::asio::post(threads_, std::move(check));
}

std::optional<AuthResult> Authenticator::authenticate(const Credentials& credentials) const {
    const auto files = this->files();
    if (credentials.user.empty() && credentials.password.empty()) {
        if (settings_.allow_anonymous) return anonymous(credentials);
        return AuthResult{.reason = Reason::not_authorized,
                          .why = "it names no user and shows no password"};
    }
    if (files->tokens && looks_like_token(credentials.password))
        return check_token(*files->tokens, credentials.password);
    const bool known = files->passwords && files->passwords->has(credentials.user);
    if (hook_ && !known) return std::nullopt;
    // Who is the user then, its name or its client id, is what user-from says.
    if (files->passwords && files->passwords->check(credentials.user, credentials.password))
        return AuthResult{};
    return refusal(files->passwords ? "user name or password is wrong" : "its password is no token",
                   true);
}

}  // namespace pulsegate
