#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pulsegate {

/// The kinds of events for backends. The numbers are stored.
enum class EventKind : std::uint8_t { presence, login, login_refused, message_waiting };

/// The names in settings and JSON.
inline constexpr std::array<std::string_view, 4> event_kind_names{
    "presence", "login", "login_refused", "message_waiting"};

inline constexpr std::string_view name(EventKind kind) {
    return event_kind_names[static_cast<std::size_t>(kind)];
}

inline constexpr std::optional<EventKind> event_kind(std::string_view name) {
    for (std::size_t i = 0; i < event_kind_names.size(); ++i)
        if (event_kind_names[i] == name) return static_cast<EventKind>(i);
    return std::nullopt;
}

/// A set of kinds: the bit of each.
using EventKinds = std::uint32_t;

inline constexpr EventKinds kinds_of(EventKind kind) {
    return EventKinds{1} << static_cast<unsigned>(kind);
}

inline constexpr EventKinds all_event_kinds = (EventKinds{1} << event_kind_names.size()) - 1;

}  // namespace pulsegate
