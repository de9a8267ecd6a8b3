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
    std::string access_file;  ///< "": the default rules, if logins are checked
    bool allow_anonymous = false;
    bool user_by_certificate = false;  ///< a client with a certificate needs no other check
    Millis longest_wait = 5'000;       ///< for a login's turn to be checked

    bool has_keys() const {
        return !jwt.secret_files.empty() || !jwt.public_key_files.empty() || key_server.url;
    }
    /// True if usernames, passwords or tokens can be checked.
    bool has_users() const { return !password_file.empty() || has_keys() || hook.url; }
    /// Must clients show who they are?
    bool checks_logins() const { return has_users() || user_by_certificate; }
};

/// Decides which clients may log in, and keeps the access rules. It hashes passwords and verifies
/// tokens on its own threads, so no event loop waits for them. It remembers correct passwords until
/// the next reload.
///
/// If there are keys for tokens, a password in the form of a token is checked as a token, whatever
/// the username. Otherwise users in the password file are checked by it, and all others by the
/// company's backend, if there is a hook.
class Authenticator {
public:
    using Answer = CheckPool::Answer;
    using Turn = CheckPool::Turn;

    /// Throws std::runtime_error that names the file and the remedy.
    explicit Authenticator(AuthenticatorSettings settings);
    ~Authenticator();

    /// Must clients show who they are?
    bool required() const { return settings_.checks_logins(); }

    /// True if it needs the addresses of clients.
    bool has_hook() const { return hook_ != nullptr; }

    /// From any thread. Both functions may be called on any thread, and must not call back. A slow
    /// check waits for its turn, which `turn` announces: then call `begin` or `give_up`.
    void authenticate(const Credentials& credentials, const Address& address, Turn turn,
                      Answer answer);
    void begin(CheckPool::Ticket ticket, Credentials credentials) {
        checks_.begin(ticket, std::move(credentials));
    }
    /// The login's client has gone.
    void give_up(CheckPool::Ticket ticket) { checks_.give_up(ticket); }

    /// Reads all files again, with the keys for tokens that `jwt` names. The returned function
    /// applies them. There must be keys if there were keys before, and only then. Throws as the
    /// constructor does.
    [[nodiscard]] std::function<void()> prepare_reload(const JwtSettings& jwt);
    /// Reads the same files again and applies them. If it throws, nothing changes.
    void reload() { prepare_reload(settings_.jwt)(); }

    /// Applies the limits of the hook, the intervals of the key server and the longest wait. The
    /// other settings must be as before.
    void use(const AuthenticatorSettings& settings);

    /// Forgets earlier successful logins of this user. The hook forgets all its answers, because an
    /// answer's user may depend on the client id.
    void forget(std::string_view user) const;

    /// The hook forgets all its answers, because one of them is older than a revocation. The caller
    /// examines the answers that come now.
    void forget_hook_answers() const;

    /// The rules for clients without rules of their own; null: everything is allowed.
    std::shared_ptr<const AccessRules> rules() const { return files()->rules; }

    /// The lines of the password file; null: there is none.
    std::shared_ptr<const PasswordLines> password_lines() const { return files()->password_lines; }

    /// Nothing if there is no hook.
    std::optional<HookCounters> hook_counters() const;
    /// Nothing if there is no key server.
    std::optional<KeyServerCounters> key_server_counters() const;

    /// Begins no more password checks.
    void begin_stop();
    /// Waits for the checks under way, which may take seconds. Gives no more answers.
    void stop();

private:
    /// The contents of the files. It is replaced as a whole, so no check sees half of a change.
    struct Files {
        std::optional<PasswordFile> passwords;
        std::optional<JwtVerifier> tokens;
        std::shared_ptr<const PasswordLines> password_lines;  ///< null: there is no such file
        std::shared_ptr<const AccessRules> rules;
        mutable RightPasswords right_passwords{};  ///< of logins since the files were read

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
    mutable std::mutex mutex_;  ///< guards the pointer only
    std::shared_ptr<const Files> files_;
    CheckPool checks_;
};

}  // namespace pulsegate
