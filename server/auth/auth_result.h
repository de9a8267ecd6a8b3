#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "protocol/reason.h"
#include "server/auth/access.h"
#include "server/auth/password_lines.h"

namespace pulsegate {

/// The result of the check of a client's credentials.
struct AuthResult {
    Reason reason = Reason::success;
    std::string why{};     ///< of a refusal, for the log
    const char* told{};    ///< of a refusal, to the client; null: what its reason says
    std::string user{};    ///< the authenticated user; "": the one in the CONNECT
    std::string client{};  ///< for a client that sent no client id; "": any
    std::shared_ptr<const AccessRules> rules{};  ///< of this client; null: the gateway's
    std::optional<std::int64_t> expiry{};  ///< seconds since 1970; then the client is disconnected
    bool guessed = false;                  ///< refused, and counts as a guessed password
    bool awaits_key = false;               ///< refused, but its key may come from a key server
    PasswordLine password_line = 0;        ///< that let it in; 0: something else did
    /// When the token was issued that let it in, see Revocations; nothing: something else did.
    std::optional<std::int64_t> token_issued{};
};

}  // namespace pulsegate
