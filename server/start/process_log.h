#pragma once

#include <spdlog/common.h>

#include <string>

#include "server/base/log_format.h"

namespace pulsegate {

/// Past the log. If the reader of standard error is blocked, nothing is said: it would hold up the
/// exit for good.
void say_at_once(const std::string& text);

/// The log of the process, as long as this object lives: to standard error, since standard output
/// belongs to `--events -`.
class ProcessLog {
public:
    ProcessLog(spdlog::level::level_enum level, LogFormat format);
    ~ProcessLog();

    static void use(spdlog::level::level_enum level, LogFormat format);
};

}  // namespace pulsegate
