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

// What is required of a delayed message, whether it comes by MQTT or by HTTP.

/// Larger numbers are Unix times, smaller ones a number of seconds; as EMQX has it.
inline constexpr std::uint64_t longest_delay = 42'949'670;

/// In seconds since 1970, rounded up, for it must not be early. `time` is the gateway's. Nothing:
/// it is too far away to have a number.
std::optional<std::int64_t> due_after(std::uint64_t seconds, WallMillis time);
/// The same for a date; the past is now.
std::optional<std::int64_t> due_at(std::uint64_t unix_seconds, WallMillis time);

/// Can it be cancelled by a topic, and is it not taken for a number?
bool is_delay_name(std::string_view name);

/// For `DelayedOrigin`.
std::uint32_t delayed_client(std::string_view user, std::string_view client);

/// A user's delayed messages from clients whose logins are no longer valid, and all that don't tell
/// by which client or token they came.
struct DelayedByClients {
    std::string user;
    std::vector<std::uint32_t>
        clients{};  ///< `delayed_client` of each; empty: by any of the user's
    /// Not those that came by a token that was issued then or later, in seconds since 1970.
    std::optional<std::int64_t> tokens_spared_since{};

    bool includes(const PutDelayed& put) const;
};

std::optional<std::uint64_t> decimal_number(std::string_view digits);

/// Why messages are not taken, if they are not: these are the totals with them. `own`: of the user;
/// nothing: it is not limited.
std::optional<Refusal> delayed_limit_reached(const BrokerSettings& settings,
                                             const DelayedTotal& all,
                                             const std::optional<DelayedTotal>& own);

}  // namespace pulsegate
