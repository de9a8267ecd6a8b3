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
#include "server/auth/jwt.h"
#include "server/auth/passwords.h"
#include "server/auth/verdict.h"

namespace pulsegate {

struct GatekeeperSettings {
    std::string password_file;  ///< "": none
    JwtSettings jwt;
    std::string access_file;  ///< "": the usual rules, once anybody is asked who they are
    bool allow_anonymous = false;
};

/// Decides who may come in, and keeps the rules for those who are. Passwords are hashed and tokens
/// verified on threads of its own: no event loop waits for them.
///
/// A token is one by its form, whatever the user name; everything else is asked of the password
/// file.
class Gatekeeper {
public:
    /// What a client shows of itself, as a copy.
    struct Claim {
        std::string user;  ///< "" if it names none
        std::string password;
    };
    using Answer = std::function<void(Verdict)>;

    /// Throws std::runtime_error that names the file and the remedy.
    explicit Gatekeeper(GatekeeperSettings settings);
    ~Gatekeeper();

    /// Is anybody asked who they are?
    bool asks() const { return !settings_.password_file.empty() || has_keys(); }

    /// From any thread; `answer` is called on one of the gatekeeper's own.
    void judge(Claim claim, Answer answer);

    /// Reads all files anew. Throws as the constructor does, and then nothing changes.
    void reload();

    /// The rules for everybody who brings none; null: everything is allowed.
    std::shared_ptr<const AccessRules> rules() const { return files()->rules; }

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
    Verdict judge(const Claim& claim) const;

    const GatekeeperSettings settings_;
    mutable std::mutex mutex_;  ///< of the pointer only
    std::shared_ptr<const Files> files_;
    std::atomic<std::size_t> waiting_{0};
    boost::asio::thread_pool threads_;
};

}  // namespace pulsegate
