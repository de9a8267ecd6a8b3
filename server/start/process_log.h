#pragma once

#include <spdlog/common.h>

#include <string>

#include "server/base/log_format.h"

namespace pulsegate {

/// Writes past the log. If the reader of standard error is blocked, it writes nothing, because it
/// would delay the exit for ever.
void say_at_once(const std::string& text);

/// The log of the process, as long as this object lives. It goes to standard error, because
/// standard output is for `--events -`.
class ProcessLog {
public:
    ProcessLog(spdlog::level::level_enum level, LogFormat format);
    ~ProcessLog();

    static void use(spdlog::level::level_enum level, LogFormat format);
};

}  // namespace pulsegate
