#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "server/base/clock.h"

namespace pulsegate {

/// Text from the network for a log line: in quotes, cut after 64 bytes, and whatever could end the
/// line, steer a terminal or change the direction of the text is escaped.
/// A view that is escaped when it is formatted, so that suppressed lines cost nothing.
struct Quoted {
    std::string_view text;
};
inline Quoted in_quotes(std::string_view text) { return {text}; }

/// How many lines that peers can provoke one thread may log: 50 at once, and 1,000 a minute as long
/// as it lasts, so that an attack fills neither the disk nor the loop's time. It has no clock.
class LineBudget {
public:
    /// Is there room for one more line? The others are counted.
    bool take(Millis now);

    /// How many lines had no room, to be logged behind a line that had; 0 if it is too early to say
    /// so again.
    std::uint64_t suppressed(Millis now);

private:
    Millis full_at_ = 0;  ///< when all 50 have room again
    Millis report_at_ = 0;
    std::uint64_t suppressed_ = 0;
};

/// May this thread log one more line that a peer can provoke?
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
