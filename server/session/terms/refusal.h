#pragma once

#include <optional>
#include <string_view>

#include "protocol/reason.h"
#include "server/base/limit.h"

namespace pulsegate {

/// Why nothing can be published to the inbox of a user with a name that is too long.
inline constexpr const char* no_such_inbox =
    "a user with a name of more than 1024 bytes has no inbox";

/// Why a packet, or one filter of it, is refused: the reason code for the client, text for the log
/// and for the reason string, and the limit that was reached, if any.
struct Refusal {
    Reason reason;
    const char* why;
    std::optional<Limit> limit{};
    bool is_by_store = false;  ///< it can't be stored now
};

inline constexpr Refusal store_in_trouble{
    .reason = Reason::quota_exceeded, .why = "the store is in trouble", .is_by_store = true};
inline constexpr Refusal much_waits_for_store{
    .reason = Reason::quota_exceeded,
    .why = "much waits for the store, which is in trouble",
    .is_by_store = true};

/// The refusal of a login, with one text for the log and the history, and one for the client.
struct LoginRefusal {
    Reason reason;
    std::string_view why;
    std::string_view told;
};

}  // namespace pulsegate
