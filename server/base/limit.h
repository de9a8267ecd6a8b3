#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace pulsegate {

/// The limits that clients can reach, named after their settings.
enum class Limit : std::uint8_t {
    max_connections,
    memory_budget,
    max_connections_per_address,
    max_connections_per_user,
    login_rate,
    login_wait,
    max_loop_lag,
    max_message_rate,
    max_byte_rate,
    max_packet_size,
    max_client_id_length,
    output_budget,
    total_output_budget,
    max_subscriptions,
    max_client_memory,
    max_user_memory,
    max_inboxes,
    max_inboxes_per_user,
    max_inbox_bytes_per_user,
    max_delayed_messages,
    max_delayed_bytes,
    max_delayed_messages_per_user,
    max_delayed_bytes_per_user,
    max_topic_length,
    max_topic_levels,
    ban_failures,
    ban_flaps,
    duel_takeovers,
};

/// The names of the settings, in the order of Limit.
inline constexpr std::string_view limit_names[] = {
    "max-connections",
    "memory-budget",
    "max-connections-per-address",
    "max-connections-per-user",
    "login-rate",
    "login-wait",
    "max-loop-lag",
    "max-message-rate",
    "max-byte-rate",
    "max-packet-size",
    "max-client-id-length",
    "output-budget",
    "total-output-budget",
    "max-subscriptions",
    "max-client-memory",
    "max-user-memory",
    "max-inboxes",
    "max-inboxes-per-user",
    "max-inbox-bytes-per-user",
    "max-delayed-messages",
    "max-delayed-bytes",
    "max-delayed-messages-per-user",
    "max-delayed-bytes-per-user",
    "max-topic-length",
    "max-topic-levels",
    "ban-failures",
    "ban-flaps",
    "duel-takeovers",
};

inline constexpr std::size_t limits = std::size(limit_names);
static_assert(limits == static_cast<std::size_t>(Limit::duel_takeovers) + 1);

}  // namespace pulsegate
