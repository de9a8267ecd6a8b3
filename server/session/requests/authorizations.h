#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "server/auth/access.h"
#include "server/auth/auth_result.h"
#include "server/base/owner_thread.h"
#include "server/session/state/session.h"
#include "wheel/stacked_wheel.h"

namespace pulsegate {

/// The reason that a client gets when its line of the password file is no longer valid.
inline constexpr const char* revoked = "its user was removed, or has another password now";

/// The rights of the clients of one shard, and when they expire: the gateway's rules, and the rules
/// and expiry of each login. It belongs to the shard's thread and has no clock.
class Authorizations {
public:
    /// Sets the rules for clients without rules of their own; null: everything is allowed.
    void use(std::shared_ptr<const AccessRules> rules) { rules_ = std::move(rules); }

    /// Sets which lines of the password file are valid; null: there is no such file.
    void use(std::shared_ptr<const PasswordLines> lines) { password_lines_ = std::move(lines); }

    /// Is the client's login still valid? It is not if the client's user has another password, or
    /// was removed.
    bool is_valid(PasswordLine line) const {
        return line == 0 || !password_lines_ || password_lines_->include(line);
    }

    /// The fingerprint of the line, for another process; 0: it is not in the file.
    std::uint64_t fingerprint_of(PasswordLine line) const {
        if (!password_lines_) return 0;
        const auto found = password_lines_->fingerprints.find(line);
        return found == password_lines_->fingerprints.end() ? 0 : found->second;
    }
    /// The line with this fingerprint. 0: there is no file, or the login used none. Nothing: the
    /// line is not in the file.
    std::optional<PasswordLine> line_of(std::uint64_t fingerprint) const {
        if (fingerprint == 0 || !password_lines_) return 0;
        const auto found = password_lines_->by_fingerprint.find(fingerprint);
        if (found == password_lines_->by_fingerprint.end()) return std::nullopt;
        return found->second;
    }

    /// The rules for a client with this result; null: everything is allowed.
    const AccessRules* rules_of(const AuthResult& result) const {
        return result.rules ? result.rules.get() : rules_.get();
    }
    /// The rules for a client without rules of its own.
    const AccessRules* rules() const { return rules_.get(); }
    const AccessRules* rules_of(const Session& session) const {
        const bool own = session.authorization && session.authorization->rules;
        return own ? session.authorization->rules.get() : rules_.get();
    }

    /// The client has logged in with this result: keeps its rules and its expiry.
    void grant(Session& session, const AuthResult& result, Millis now);

    /// Disconnects some of the clients whose authorization has expired. True if there are more.
    [[nodiscard]] bool expire(Tick now);

private:
    std::shared_ptr<const AccessRules> rules_;
    std::shared_ptr<const PasswordLines> password_lines_;
    StackedWheel wheel_;  ///< authorizations that expire
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
