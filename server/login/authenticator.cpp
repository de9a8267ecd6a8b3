#include "server/login/authenticator.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

#include "server/auth/base64.h"
#include "server/auth/revocations.h"
#include "server/base/clock.h"
#include "server/base/machine.h"
#include "server/base/text/client_id.h"

namespace pulsegate {

namespace {

/// Adds the name of the setting that named the file to its errors.
template <class Load>
auto load_for(const char* setting, Load load) {
    try {
        return load();
    } catch (const std::exception& error) {
        throw std::runtime_error(fmt::format("{}: {}", setting, error.what()));
    }
}

/// True for three parts, the first of which is a JSON object in base64url, perhaps behind blanks
/// (RFC 7515, section 3). A password may have dots too.
bool looks_like_token(std::string_view password) {
    if (std::count(password.begin(), password.end(), '.') != 2) return false;
    const auto header = from_base64url(password.substr(0, password.find('.')));
    if (!header) return false;
    const auto begin = header->find_first_not_of(" \t\r\n");
    return begin != std::string::npos && (*header)[begin] == '{';
}

AuthResult refusal(std::string why, bool guessed) {
    return {.reason = Reason::bad_user_name_or_password, .why = std::move(why), .guessed = guessed};
}

/// The prefix keeps a client id from naming a real user.
AuthResult anonymous(const Credentials& credentials) {
    AuthResult result;
    if (credentials.client.empty()) result.client = random_client_id();
    result.user = "anonymous/" + (result.client.empty() ? credentials.client : result.client);
    return result;
}

}  // namespace

Authenticator::Authenticator(AuthenticatorSettings settings)
    : settings_(std::move(settings)),
      hook_(settings_.hook.url ? std::make_unique<AuthHook>(settings_.hook) : nullptr),
      key_server_(settings_.key_server.url ? std::make_unique<KeyServer>(settings_.key_server)
                                           : nullptr),
      checks_(available_processors(), settings_.longest_wait,
              [this](const Credentials& credentials) { return check(credentials); }) {
    files_ = read_files(settings_.jwt);
}

Authenticator::~Authenticator() { stop(); }

void Authenticator::begin_stop() { checks_.begin_stop(); }

void Authenticator::stop() {
    checks_.stop();
    if (hook_) hook_->stop();
    if (key_server_) key_server_->stop();
}

std::optional<KeyServerCounters> Authenticator::key_server_counters() const {
    if (!key_server_) return std::nullopt;
    return key_server_->counters();
}

std::optional<HookCounters> Authenticator::hook_counters() const {
    if (!hook_) return std::nullopt;
    return hook_->counters();
}

std::shared_ptr<const Authenticator::Files> Authenticator::read_files(const JwtSettings& jwt) {
    auto files = std::make_shared<Files>();
    if (!settings_.password_file.empty()) {
        files->passwords = load_for("password-file",
                                    [this] { return PasswordFile::load(settings_.password_file); });
        files->password_lines = std::make_shared<PasswordLines>(
            files->passwords->number_lines(files_ ? &*files_->passwords : nullptr, last_line_));
        for (const auto& warning : files->passwords->warnings())
            spdlog::warn("password-file: {}", warning);
    }
    if (settings_.has_keys()) {
        files->tokens = load_for("jwt", [&] { return JwtVerifier(jwt); });
        for (const auto& warning : files->tokens->warnings()) spdlog::warn("jwt: {}", warning);
    }
    if (!settings_.access_file.empty())
        files->rules = load_for("access-file", [this] {
            return std::make_shared<AccessRules>(AccessRules::load(settings_.access_file));
        });
    else if (required())
        files->rules = std::make_shared<AccessRules>(AccessRules::defaults());
    return files;
}

std::shared_ptr<const Authenticator::Files> Authenticator::files() const {
    const std::lock_guard lock(mutex_);
    return files_;
}

std::function<void()> Authenticator::prepare_reload(const JwtSettings& jwt) {
    return
        [this, fresh = read_files(jwt), credentials = hook_ ? hook_->read_credentials() : nullptr,
         of_key_server = key_server_ ? key_server_->read_credentials() : nullptr] {
            if (hook_) hook_->use(credentials);
            if (key_server_) key_server_->use(of_key_server);
            const std::lock_guard lock(mutex_);
            files_ = fresh;
        };
}

void Authenticator::use(const AuthenticatorSettings& settings) {
    if (hook_) hook_->use(settings.hook);
    if (key_server_) key_server_->use(settings.key_server);
    checks_.use(settings.longest_wait);
}

void Authenticator::forget(std::string_view user) const {
    files()->right_passwords.forget(user);
    if (hook_) hook_->forget();
}

void Authenticator::forget_hook_answers() const {
    if (hook_) hook_->forget_cached();
}

bool Authenticator::Files::is_token(std::string_view password) const {
    return tokens && looks_like_token(password);
}

void Authenticator::authenticate(const Credentials& credentials, const Address& address, Turn turn,
                                 Answer answer) {
    if (credentials.user.empty() && credentials.password.empty())
        return answer(without_credentials(credentials));
    if (!settings_.has_users())
        return answer({.reason = Reason::not_authorized, .why = "it presents no certificate"});
    const auto files = this->files();
    if (is_for_hook(*files, credentials))
        return hook_->authenticate(credentials, address, std::move(answer));
    const CredentialMac mac = mac_of(credentials);
    if (files->right_passwords.contains(credentials.user, mac))
        return answer(success(*files, credentials.user));
    if (key_server_ && files->is_token(credentials.password))
        answer = with_key_server(credentials, address, std::move(answer));
    checks_.add(mac, address, credentials.user, std::move(turn), std::move(answer));
}

/// Checks a token of an unknown key again when the set of keys has been fetched. The key server's
/// thread can do that, because it takes little time.
Authenticator::Answer Authenticator::with_key_server(const Credentials& credentials,
                                                     const Address& address, Answer answer) const {
    return [this, credentials, address, answer = std::move(answer)](AuthResult result) {
        if (!result.awaits_key) return answer(std::move(result));
        const auto done = [this, credentials, answer](KeyServer::Waited waited) {
            if (waited == KeyServer::Waited::is_over) return answer(check(credentials));
            answer({.reason = Reason::server_busy,
                    .why = "too many logins wait for the keys of jwt-jwks-url"});
        };
        key_server_->await(address, credentials.user, done);
    };
}

AuthResult Authenticator::check_token(const JwtVerifier& tokens, std::string_view token) const {
    const auto served = key_server_ ? key_server_->keys() : nullptr;
    const auto checked = tokens.verify(token, unix_now(), served.get());
    if (const auto* refused = std::get_if<JwtRefusal>(&checked)) {
        const bool awaits_key = refused->unknown_key && key_server_;
        // Not counted as a guess: the provider may have just begun to use this key.
        AuthResult result = refusal("its token: " + refused->why, refused->forged && !awaits_key);
        result.awaits_key = awaits_key;
        if (awaits_key && key_server_->is_in_trouble()) {
            result.reason = Reason::server_unavailable;
            result.why += served ? ", and jwt-jwks-url does not give new ones"
                                 : ": jwt-jwks-url has given no keys yet";
        }
        return result;
    }
    const auto& claims = std::get<JwtClaims>(checked);
    AuthResult result{.user = claims.user,
                      .expiry = claims.expiry,
                      .token_issued = claims.issued.value_or(issued_long_ago)};
    if (claims.rules) result.rules = std::make_shared<AccessRules>(*claims.rules);
    return result;
}

AuthResult Authenticator::without_credentials(const Credentials& credentials) const {
    if (settings_.allow_anonymous) return anonymous(credentials);
    return {.reason = Reason::not_authorized, .why = "it has neither a username nor a password"};
}

bool Authenticator::is_for_hook(const Files& files, const Credentials& credentials) const {
    return hook_ && !files.is_token(credentials.password) && !files.has_user(credentials.user);
}

/// Covers everything that a check's result depends on.
CredentialMac Authenticator::mac_of(const Credentials& credentials) const {
    return macs_.of({credentials.user, credentials.password});
}

/// The setting user-from decides whether the username or the client id is the user.
AuthResult Authenticator::success(const Files& files, const std::string& user) {
    AuthResult result;
    result.password_line = files.passwords->line_of(user);
    return result;
}

AuthResult Authenticator::check(const Credentials& credentials) const {
    const auto files = this->files();
    if (files->is_token(credentials.password))
        return check_token(*files->tokens, credentials.password);
    if (is_for_hook(*files, credentials))
        return {.reason = Reason::server_busy,
                .why =
                    "its user has just been removed from the password-file; the auth-hook decides "
                    "at the next login"};
    if (!files->passwords) return refusal("its password is not a token", true);
    try {
        if (!files->passwords->check(credentials.user, credentials.password))
            return refusal("user name or password is wrong", true);
    } catch (const std::bad_alloc&) {
        return {.reason = Reason::server_busy, .why = "there is no memory to check its password"};
    }
    files->right_passwords.remember(credentials.user, mac_of(credentials));
    return success(*files, credentials.user);
}

}  // namespace pulsegate
