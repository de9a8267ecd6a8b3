#include "server/gatekeeper.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "server/clock.h"

namespace pulsegate {

namespace {

/// Logins that may wait for a check: what a second or two can do. The others come again.
constexpr std::size_t most_waiting = 2000;

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

Verdict refusal(std::string why, bool guessed) {
    return {.reason = Reason::bad_user_name_or_password, .why = std::move(why), .guessed = guessed};
}

/// By the client id alone it could be any user.
Verdict anonymous(const Claim& claim) {
    if (claim.client.empty()) return {};  // it is given one that nobody has
    return {.user = "anonymous/" + claim.client};
}

Verdict judge_token(const JwtVerifier& tokens, std::string_view token) {
    const auto checked = tokens.verify(token, unix_now());
    if (const auto* refused = std::get_if<JwtRefusal>(&checked))
        return refusal("its token: " + refused->why, refused->forged);
    const auto& claims = std::get<JwtClaims>(checked);
    Verdict verdict{.user = claims.user, .expiry = claims.expiry};
    if (claims.rules) verdict.rules = std::make_shared<AccessRules>(*claims.rules);
    return verdict;
}

}  // namespace

Gatekeeper::Gatekeeper(GatekeeperSettings settings)
    : settings_(std::move(settings)),
      hook_(settings_.hook.url ? std::make_unique<AuthHook>(settings_.hook) : nullptr),
      files_(read_files()),
      threads_(std::max(1u, std::thread::hardware_concurrency())) {}

Gatekeeper::~Gatekeeper() { stop(); }

void Gatekeeper::stop() {
    threads_.stop();
    threads_.join();
    if (hook_) hook_->stop();
}

std::optional<HookCounters> Gatekeeper::hook_counters() const {
    if (!hook_) return std::nullopt;
    return hook_->counters();
}

std::shared_ptr<const Gatekeeper::Files> Gatekeeper::read_files() const {
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
    else if (asks() || settings_.user_by_certificate)
        files->rules = std::make_shared<AccessRules>(AccessRules::defaults());
    return files;
}

std::shared_ptr<const Gatekeeper::Files> Gatekeeper::files() const {
    const std::lock_guard lock(mutex_);
    return files_;
}

void Gatekeeper::reload() {
    auto fresh = read_files();
    if (hook_) hook_->use(hook_->read_files());
    const std::lock_guard lock(mutex_);
    files_ = std::move(fresh);
}

void Gatekeeper::judge(Claim claim, Answer answer) {
    if (waiting_.fetch_add(1) >= most_waiting) {
        --waiting_;
        return answer({.reason = Reason::server_busy, .why = "too many logins wait to be checked"});
    }
    auto check = [this, claim = std::move(claim), answer = std::move(answer)]() mutable {
        auto verdict = judge(claim);
        --waiting_;
        if (verdict) return answer(std::move(*verdict));
        hook_->judge(std::move(claim), std::move(answer));
    };
    boost::asio::post(threads_, std::move(check));
}

std::optional<Verdict> Gatekeeper::judge(const Claim& claim) const {
    const auto files = this->files();
    if (claim.user.empty() && claim.password.empty()) {
        if (settings_.allow_anonymous) return anonymous(claim);
        return Verdict{.reason = Reason::not_authorized,
                       .why = "it names no user and shows no password"};
    }
    if (files->tokens && looks_like_token(claim.password))
        return judge_token(*files->tokens, claim.password);
    const bool known = files->passwords && files->passwords->has(claim.user);
    if (hook_ && !known) return std::nullopt;
    // Who is the user then, its name or its client id, is what user-from says.
    if (files->passwords && files->passwords->check(claim.user, claim.password)) return Verdict{};
    return refusal(files->passwords ? "user name or password is wrong" : "its password is no token",
                   true);
}

}  // namespace pulsegate
