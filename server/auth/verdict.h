#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "protocol/reason.h"
#include "server/auth/access.h"

namespace pulsegate {

/// What became of a client's claim to be somebody.
struct Verdict {
    Reason reason = Reason::success;
    std::string why{};                           ///< of a refusal, for the log
    std::string user{};                          ///< who it is; "": whom its CONNECT names
    std::shared_ptr<const AccessRules> rules{};  ///< its own; null: the gateway's
    std::optional<std::int64_t> expiry{};        ///< seconds since 1970; then it must go
    bool guessed = false;                        ///< a refusal of what looks like guessing
};

}  // namespace pulsegate
