#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/auth/access.h"
#include "server/auth/auth_result.h"
#include "server/auth/credentials.h"
#include "server/auth/jwt.h"
#include "server/auth/passwords.h"
#include "server/login/auth_hook.h"

namespace pulsegate {

struct AuthenticatorSettings {
    std::string password_file;  ///< "": none
    JwtSettings jwt;
    AuthHookSettings hook;
    std::string access_file;  ///< "": the usual rules, once anybody is asked who they are
    bool allow_anonymous = false;
    bool user_by_certificate = false;  ///< TLS has asked some who they are
};

/// Decides who may come in, and keeps the rules for those who are. Passwords are hashed and tokens
/// verified on threads of its own: no event loop waits for them.
///
/// A token is one by its form, whatever the user name, if there are keys for tokens. Else who is in
/// the password file is judged by it, and all others by the company's backend, if there is a hook.
class Authenticator {
public:
    using Answer = std::function<void(AuthResult)>;

    /// Throws std::runtime_error that names the file and the remedy.
    explicit Authenticator(AuthenticatorSettings settings);
    ~Authenticator();

    /// Is anybody asked who they are?
    bool required() const { return !settings_.password_file.empty() || has_keys() || hook_; }

    /// From any thread; `answer` is called on one of the authenticator's own, or the hook's.
    void authenticate(Credentials credentials, Answer answer);

    /// Reads all files anew. Throws as the constructor does, and then nothing changes.
    void reload();

    /// The rules for everybody who brings none; null: everything is allowed.
    std::shared_ptr<const AccessRules> rules() const { return files()->rules; }

    /// Nothing without a hook.
    std::optional<HookCounters> hook_counters() const;

    /// No answers any more.
    void stop();

private:
    /// What the files say: replaced as a whole, so that no check sees half of a change.
    struct Files {
        std::optional<PasswordFile> passwords;
        std::optional<JwtVerifier> tokens;
        std::shared_ptr<const AccessRules> rules;
    };

    bool has_keys() const {
        return !settings_.jwt.secret_files.empty() || !settings_.jwt.public_key_files.empty();
    }
    std::shared_ptr<const Files> read_files() const;
    std::shared_ptr<const Files> files() const;
    /// Nothing: that is for the hook to say.
    std::optional<AuthResult> authenticate(const Credentials& credentials) const;

    const AuthenticatorSettings settings_;
    const std::unique_ptr<AuthHook> hook_;  ///< null: there is none
    mutable std::mutex mutex_;              ///< of the pointer only
    std::shared_ptr<const Files> files_;
    std::atomic<std::size_t> waiting_{0};
    boost::asio::thread_pool threads_;
};

}  // namespace pulsegate
