#include "server/session/requests/delayed_terms.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "server/base/hash.h"

namespace pulsegate {

namespace {

constexpr std::size_t longest_delay_name = 256;
constexpr std::uint64_t latest_due = std::numeric_limits<std::uint32_t>::max();

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::int64_t> due_after(std::uint64_t seconds, WallMillis time) {
    const auto now = static_cast<std::uint64_t>((time + 999) / 1000);
    if (seconds > latest_due - std::min(now, latest_due)) return std::nullopt;
    return static_cast<std::int64_t>(now + seconds);
}

std::optional<std::int64_t> due_at(std::uint64_t unix_seconds, WallMillis time) {
    if (unix_seconds > latest_due) return std::nullopt;
    return std::max(static_cast<std::int64_t>(unix_seconds), time / 1000);
}

bool is_delay_name(std::string_view name) {
    return !name.empty() && name.size() <= longest_delay_name &&
           name.find_first_of("+#") == std::string_view::npos &&
           !std::ranges::all_of(name, is_digit);
}

/// Never returns 0, because 0 means an unknown client.
std::uint32_t delayed_client(std::string_view user, std::string_view client) {
    constexpr std::uint64_t mask = (1u << 23) - 1;
    return static_cast<std::uint32_t>(fingerprint(user, client) % mask) + 1;
}

bool DelayedByClients::includes(const PutDelayed& put) const {
    const DelayedOrigin& origin = put.origin;
    if (put.user != user || origin.is_backend) return false;
    const bool is_known = !clients.empty() && origin.client != 0;
    if (is_known && std::ranges::find(clients, origin.client) == clients.end()) return false;
    return !tokens_spared_since || origin.token_issued == 0 ||
           std::int64_t{origin.token_issued} < *tokens_spared_since;
}

std::optional<std::uint64_t> decimal_number(std::string_view digits) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return value;
}

std::optional<Refusal> delayed_limit_reached(const BrokerSettings& settings,
                                             const DelayedTotal& all,
                                             const std::optional<DelayedTotal>& own) {
    constexpr auto reason = Reason::quota_exceeded;
    if (all.messages > settings.max_delayed_messages)
        return Refusal{reason, "max-delayed-messages is reached", Limit::max_delayed_messages};
    if (all.bytes > settings.max_delayed_bytes)
        return Refusal{reason, "max-delayed-bytes is reached", Limit::max_delayed_bytes};
    if (own && own->messages > settings.max_delayed_messages_per_user)
        return Refusal{reason, "max-delayed-messages-per-user is reached",
                       Limit::max_delayed_messages_per_user};
    if (own && own->bytes > settings.max_delayed_bytes_per_user)
        return Refusal{reason, "max-delayed-bytes-per-user is reached",
                       Limit::max_delayed_bytes_per_user};
    return std::nullopt;
}

}  // namespace pulsegate
