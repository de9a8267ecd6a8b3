#include "server/http/serving/moment.h"

#include <cstdint>

#include "server/base/text/date.h"

namespace pulsegate {

std::optional<WallMillis> moment_in(const boost::json::value& value) {
    constexpr std::uint64_t latest = 0xffffffff;  // seconds
    if (value.is_string()) {
        const auto& text = value.get_string();
        const auto date = parse_rfc3339({text.data(), text.size()});
        const bool fits = date && *date >= 0 && *date <= static_cast<WallMillis>(latest) * 1000;
        return fits ? date : std::nullopt;
    }
    boost::system::error_code error;
    const auto seconds = value.to_number<std::uint64_t>(error);
    if (error || seconds > latest) return std::nullopt;
    return static_cast<WallMillis>(seconds) * 1000;
}

}  // namespace pulsegate
