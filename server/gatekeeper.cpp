#include "server/gatekeeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "protocol/topic.h"

namespace pulsegate {

namespace {

/// Logins that may wait for a check: what a second or two can do. The others come again.
constexpr std::size_t most_waiting = 2000;

bool looks_like_token(std::string_view password) {
    return std::count(password.begin(), password.end(), '.') == 2;
}

std::int64_t unix_now() {
    using namespace std::chrono;
    return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

Gatekeeper::Gatekeeper(GatekeeperSettings settings)
    : settings_(std::move(settings)),
      files_(read_files()),
      threads_(std::max(1u, std::thread::hardware_concurrency())) {}

Gatekeeper::~Gatekeeper() { stop(); }

void Gatekeeper::stop() {
    threads_.stop();
    threads_.join();
}

std::shared_ptr<const Gatekeeper::Files> Gatekeeper::read_files() const {
    auto files = std::make_shared<Files>();
    if (!settings_.password_file.empty()) {
        files->passwords = PasswordFile::load(settings_.password_file);
        if (!files->passwords->warning().empty())
            spdlog::warn("password-file: {}", files->passwords->warning());
    }
    if (has_keys()) {
        files->tokens.emplace(settings_.jwt);
        for (const auto& warning : files->tokens->warnings()) spdlog::warn("jwt: {}", warning);
    }
    if (!settings_.access_file.empty())
        files->rules = std::make_shared<AccessRules>(AccessRules::load(settings_.access_file));
    else if (asks())
        files->rules = std::make_shared<AccessRules>(AccessRules::defaults());
    return files;
}

std::shared_ptr<const Gatekeeper::Files> Gatekeeper::files() const {
    const std::lock_guard lock(mutex_);
    return files_;
}

void Gatekeeper::reload() {
    auto fresh = read_files();
    const std::lock_guard lock(mutex_);
    files_ = std::move(fresh);
}

void Gatekeeper::judge(Claim claim, Answer answer) {
    if (waiting_.fetch_add(1) >= most_waiting) {
        --waiting_;
        return answer({.reason = Reason::server_busy, .why = "too many logins wait to be checked"});
    }
    boost::asio::post(threads_, [this, claim = std::move(claim), answer = std::move(answer)] {
        auto verdict = judge(claim);
        --waiting_;
        answer(std::move(verdict));
    });
}

Verdict Gatekeeper::judge(const Claim& claim) const {
    const auto files = this->files();
    if (claim.user.empty() && claim.password.empty()) {
        if (settings_.allow_anonymous) return {};
        return {.reason = Reason::not_authorized, .why = "it names no user and shows no token"};
    }
    if (files->tokens && looks_like_token(claim.password)) {
        const auto checked = files->tokens->verify(claim.password, unix_now());
        if (const auto* refusal = std::get_if<JwtRefusal>(&checked))
            return {.reason = Reason::bad_user_name_or_password,
                    .why = "its token: " + refusal->why};
        const auto& claims = std::get<JwtClaims>(checked);
        if (!valid_utf8(claims.user))  // JSON may spell U+0000, and no topic can
            return {.reason = Reason::bad_user_name_or_password,
                    .why = "its token: sub has a U+0000"};
        Verdict verdict{.user = claims.user, .expiry = claims.expiry};
        if (claims.rules) verdict.rules = std::make_shared<AccessRules>(*claims.rules);
        return verdict;
    }
    if (files->passwords && files->passwords->check(claim.user, claim.password))
        return {.user = claim.user};
    return {.reason = Reason::bad_user_name_or_password, .why = "user name or password is wrong"};
}

}  // namespace pulsegate
