#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/clock.h"
#include "server/session/terms/refusal.h"
#include "server/session/terms/settings.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

// The requirements for a delayed message, over MQTT or HTTP.

/// Larger numbers are Unix times, smaller ones a number of seconds; as EMQX has it.
inline constexpr std::uint64_t longest_delay = 42'949'670;

/// The time after so many seconds, in seconds since 1970, rounded up so that the message is never
/// early. `time` is the gateway's time. Nothing if the time is too far away.
std::optional<std::int64_t> due_after(std::uint64_t seconds, WallMillis time);
/// The same for a date. A past date counts as now.
std::optional<std::int64_t> due_at(std::uint64_t unix_seconds, WallMillis time);

/// Can a message with this name be cancelled by topic? The name must not look like a number.
bool is_delay_name(std::string_view name);

/// The client in a `DelayedOrigin`.
std::uint32_t delayed_client(std::string_view user, std::string_view client);

/// A user's delayed messages from clients with logins that are no longer valid, and all messages
/// for which the client or the token is not known.
struct DelayedByClients {
    std::string user;
    std::vector<std::uint32_t>
        clients{};  ///< `delayed_client` of each; empty: all clients of the user
    /// Except messages from logins with a token that was issued at this time or later, in seconds
    /// since 1970.
    std::optional<std::int64_t> tokens_spared_since{};

    bool includes(const PutDelayed& put) const;
};

std::optional<std::uint64_t> decimal_number(std::string_view digits);

/// The limit that a new message would exceed; nothing if it fits. The arguments are the totals
/// including this message. `own` is the user's total; nothing: it is not limited.
std::optional<Refusal> delayed_limit_reached(const BrokerSettings& settings,
                                             const DelayedTotal& all,
                                             const std::optional<DelayedTotal>& own);

}  // namespace pulsegate
