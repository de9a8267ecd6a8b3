#pragma once

#include <optional>
#include <string_view>

#include "server/base/clock.h"

namespace pulsegate {

/// A date and time by RFC 3339, as in "2026-11-20T13:36:22.123Z" or "2026-11-20T14:36:22+01:00".
/// Nothing if it is none.
std::optional<WallMillis> parse_rfc3339(std::string_view text);

}  // namespace pulsegate
