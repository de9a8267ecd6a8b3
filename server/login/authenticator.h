#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/auth/access.h"
#include "server/auth/auth_result.h"
#include "server/auth/credentials.h"
#include "server/auth/jwt.h"
#include "server/auth/passwords/passwords.h"
#include "server/auth/passwords/right_passwords.h"
#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/login/auth_hook.h"
#include "server/login/check_pool.h"
#include "server/login/key_server.h"

namespace pulsegate {

struct AuthenticatorSettings {
    std::string password_file;  ///< "": none
    JwtSettings jwt;
    KeyServerSettings key_server;
    AuthHookSettings hook;
    std::string access_file;  ///< "": the usual rules, once anybody is asked who they are
    bool allow_anonymous = false;
    bool user_by_certificate = false;  ///< who shows a certificate is its user, and not asked here
    Millis longest_wait = 5'000;       ///< for the turn to be checked

    bool has_keys() const {
        return !jwt.secret_files.empty() || !jwt.public_key_files.empty() || key_server.url;
    }
    /// Is there anything to check a username, a password or a token by?
    bool has_users() const { return !password_file.empty() || has_keys() || hook.url; }
    /// Must clients show who they are?
    bool checks_logins() const { return has_users() || user_by_certificate; }
};

/// Decides who may come in, and keeps the rules for those who are. Passwords are hashed and tokens
/// verified on threads of its own: no event loop waits for them. A password that was right is
/// remembered until the next reload.
///
/// A token is one by its form, whatever the user name, if there are keys for tokens. Else who is in
/// the password file is judged by it, and all others by the company's backend, if there is a hook.
class Authenticator {
public:
    using Answer = CheckPool::Answer;
    using Turn = CheckPool::Turn;

    /// Throws std::runtime_error that names the file and the remedy.
    explicit Authenticator(AuthenticatorSettings settings);
    ~Authenticator();

    /// Must clients show who they are?
    bool required() const { return settings_.checks_logins(); }

    /// Is it told the addresses of clients?
    bool has_hook() const { return hook_ != nullptr; }

    /// From any thread, and both functions are called on any; they must not call back. What takes
    /// time waits for its turn, which `turn` announces: `begin` or `give_up` must follow.
    void authenticate(const Credentials& credentials, const Address& address, Turn turn,
                      Answer answer);
    void begin(CheckPool::Ticket ticket, Credentials credentials) {
        checks_.begin(ticket, std::move(credentials));
    }
    /// Its client has gone.
    void give_up(CheckPool::Ticket ticket) { checks_.give_up(ticket); }

    /// Reads all files anew, and the keys for tokens from these. Throws as the constructor does.
    /// What it returns puts them to use. There must be keys if there were some before, and only
    /// then.
    [[nodiscard]] std::function<void()> prepare_reload(const JwtSettings& jwt);
    /// Does both with the same files. If it throws, nothing changes.
    void reload() { prepare_reload(settings_.jwt)(); }

    /// Puts the limits of the hook, the intervals of the key server and the longest wait to use;
    /// the rest of the settings must be as before.
    void use(const AuthenticatorSettings& settings);

    /// Lets nobody in as this user by what is remembered of earlier logins. The hook forgets all
    /// its answers: which user one is about may be said by the client id.
    void forget(std::string_view user) const;

    /// The rules for everybody who brings none; null: everything is allowed.
    std::shared_ptr<const AccessRules> rules() const { return files()->rules; }

    /// The lines of the password file; null: there is none.
    std::shared_ptr<const PasswordLines> password_lines() const { return files()->password_lines; }

    /// Nothing without a hook.
    std::optional<HookCounters> hook_counters() const;
    /// Nothing without a key server.
    std::optional<KeyServerCounters> key_server_counters() const;

    /// Begins no more checks of passwords.
    void begin_stop();
    /// Waits for the checks under way, which may take seconds: no answers any more.
    void stop();

private:
    /// What the files say: replaced as a whole, so that no check sees half of a change.
    struct Files {
        std::optional<PasswordFile> passwords;
        std::optional<JwtVerifier> tokens;
        std::shared_ptr<const PasswordLines> password_lines;  ///< null: there is no such file
        std::shared_ptr<const AccessRules> rules;
        mutable RightPasswords right_passwords{};  ///< that clients have shown since

        bool has_user(const std::string& user) const { return passwords && passwords->has(user); }
        bool is_token(std::string_view password) const;
    };

    std::shared_ptr<const Files> read_files(const JwtSettings& jwt);
    std::shared_ptr<const Files> files() const;
    AuthResult without_credentials(const Credentials& credentials) const;
    bool is_for_hook(const Files& files, const Credentials& credentials) const;
    static AuthResult success(const Files& files, const std::string& user);
    CredentialMac mac_of(const Credentials& credentials) const;
    AuthResult check(const Credentials& credentials) const;
    AuthResult check_token(const JwtVerifier& tokens, std::string_view token) const;
    Answer with_key_server(const Credentials& credentials, const Address& address,
                           Answer answer) const;

    const AuthenticatorSettings settings_;
    const std::unique_ptr<AuthHook> hook_;         ///< null: there is none
    const std::unique_ptr<KeyServer> key_server_;  ///< null: there is none
    const CredentialMacs macs_;
    PasswordLine last_line_ = 0;
    mutable std::mutex mutex_;  ///< of the pointer only
    std::shared_ptr<const Files> files_;
    CheckPool checks_;
};

}  // namespace pulsegate
