#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>
#include <utility>

namespace pulsegate {

/// Text from the network, fit for a log line: in quotes, control characters escaped, cut after 64
/// bytes.
std::string quoted(std::string_view text);

/// May this thread write one more line of the kind that peers can provoke? Fifty a second; what is
/// held back is counted and said, so that an attack fills neither the disk nor the loop's time.
bool log_has_room();

/// Logs what a peer provoked, within the limit of `log_has_room`.
template <class... Args>
void log_limited(spdlog::level::level_enum level, fmt::format_string<Args...> format,
                 Args&&... args) {
    if (!spdlog::should_log(level) || !log_has_room()) return;
    spdlog::log(level, format, std::forward<Args>(args)...);
}

}  // namespace pulsegate
