#pragma once

#include <memory>
#include <utility>

#include "server/auth/access.h"
#include "server/auth/auth_result.h"
#include "server/base/owner_thread.h"
#include "server/session/session.h"
#include "wheel/stacked_wheel.h"

namespace pulsegate {

/// What the clients of one shard may do, and until when: the gateway's rules, and the rules and
/// expiry that came with a login. It belongs to the shard's thread and has no clock.
class Authorizations {
public:
    /// Sets the rules for clients that have none of their own; null: everything is allowed.
    void use(std::shared_ptr<const AccessRules> rules) { rules_ = std::move(rules); }

    /// The rules for a client with this result; null: everything is allowed.
    const AccessRules* rules_of(const AuthResult& result) const {
        return result.rules ? result.rules.get() : rules_.get();
    }
    /// The rules for a client that has none of its own.
    const AccessRules* rules() const { return rules_.get(); }
    const AccessRules* rules_of(const Session& session) const {
        const bool own = session.authorization && session.authorization->rules;
        return own ? session.authorization->rules.get() : rules_.get();
    }

    /// The client has logged in with this result: keeps its rules and its expiry.
    void grant(Session& session, const AuthResult& result, Millis now);

    /// Disconnects the clients whose authorization has expired.
    void expire(Tick now);

private:
    std::shared_ptr<const AccessRules> rules_;
    StackedWheel wheel_;  ///< authorizations that expire
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
