#include "server/clock.h"

#include <fmt/format.h>

#include <ctime>

namespace pulsegate {

namespace {
const auto process_start = std::chrono::steady_clock::now();
}

Millis monotonic_now() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now() - process_start).count();
}

WallMillis wall_now() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::string rfc3339(WallMillis when) {
    const std::time_t seconds = when / 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                       utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                       when % 1000);
}

}  // namespace pulsegate
