#pragma once

#include <spdlog/spdlog.h>

#include <string_view>
#include <utility>

namespace pulsegate {

/// Text from the network for a log line: in quotes, cut after 64 bytes, and whatever could end the
/// line, steer a terminal or change the direction of the text is escaped.
/// A view that is escaped when it is formatted, so that suppressed lines cost nothing.
struct Quoted {
    std::string_view text;
};
inline Quoted quoted(std::string_view text) { return {text}; }

/// May this thread log one more line that a peer can provoke? Fifty a second are allowed, so that
/// an attack fills neither the disk nor the loop's time; suppressed lines are counted and their
/// number is logged.
bool log_has_room();

/// Logs a line that a peer can provoke, within the limit of `log_has_room`.
template <class... Args>
void log_limited(spdlog::level::level_enum level, fmt::format_string<Args...> format,
                 Args&&... args) {
    if (!spdlog::should_log(level) || !log_has_room()) return;
    spdlog::log(level, format, std::forward<Args>(args)...);
}

}  // namespace pulsegate

template <>
struct fmt::formatter<pulsegate::Quoted> {
    constexpr auto parse(format_parse_context& context) { return context.begin(); }
    format_context::iterator format(pulsegate::Quoted quoted, format_context& context) const;
};
