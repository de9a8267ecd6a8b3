#pragma once

#include <spdlog/formatter.h>

#include <cstdint>
#include <memory>

namespace pulsegate {

/// How the lines of the log are written.
enum class LogFormat : std::uint8_t {
    text,  ///< time, level and message, separated by blanks
    json,  ///< an object with the same members, and the line's LogFields
};

/// A formatter for a sink that ends each line itself.
std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format);

}  // namespace pulsegate
