#pragma once

#include <spdlog/spdlog.h>

namespace pulsegate {

/// Nothing is logged while it lives: for tests of what is logged as an error.
class QuietLog {
public:
    QuietLog() { spdlog::set_level(spdlog::level::off); }
    ~QuietLog() { spdlog::set_level(before_); }
    QuietLog(const QuietLog&) = delete;
    QuietLog& operator=(const QuietLog&) = delete;

private:
    spdlog::level::level_enum before_ = spdlog::get_level();
};

}  // namespace pulsegate
