#pragma once

#include <boost/json/value.hpp>
#include <optional>

#include "server/base/clock.h"

namespace pulsegate {

/// A time in a request, in milliseconds since 1970. The JSON is a string with a date and time by
/// RFC 3339, or a Unix time in seconds. Nothing if it is neither, or not before 2106.
std::optional<WallMillis> moment_in(const boost::json::value& value);

}  // namespace pulsegate
