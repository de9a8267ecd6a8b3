#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "protocol/reason.h"
#include "server/auth/access.h"
#include "server/auth/password_lines.h"
#include "server/base/clock.h"

namespace pulsegate {

/// The result of checking a client's credentials.
struct AuthResult {
    Reason reason = Reason::success;
    std::string why{};     ///< the reason of a refusal, for the log
    const char* told{};    ///< the reason that the client is told; null: the text of `reason`
    std::string user{};    ///< the authenticated user; "": the one in the CONNECT
    std::string client{};  ///< the id for a client that sent none; "": any
    std::shared_ptr<const AccessRules> rules{};  ///< the client's own rules; null: the gateway's
    std::optional<std::int64_t> expiry{};  ///< seconds since 1970; then the client is disconnected
    bool guessed = false;                  ///< refused, and counts as a guessed password
    bool awaits_key = false;               ///< refused, but its key may come from a key server
    PasswordLine password_line = 0;        ///< the line that the login matched; 0: none
    /// When the token of the login was issued, see Revocations; nothing: it had no token.
    std::optional<std::int64_t> token_issued{};
    /// When the auth hook was asked, see Revocations; nothing: it was not.
    std::optional<Millis> asked{};
    Millis on_link = 0;  ///< a part of `asked`: the longest time that it may have been on a link
};

}  // namespace pulsegate
