#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/base/clock.h"

namespace pulsegate {

/// A date and time by RFC 3339, as in "2026-11-20T13:36:22.123Z" or "2026-11-20T14:36:22+01:00".
/// Nothing if it is none.
std::optional<WallMillis> parse_rfc3339(std::string_view text);

/// The date of HTTP (RFC 9110, section 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(WallMillis when);
/// Reads it, but not its two obsolete forms. Nothing if it is none.
std::optional<WallMillis> parse_http_date(std::string_view text);

}  // namespace pulsegate
