#pragma once

#include <boost/json/value.hpp>
#include <optional>

#include "server/base/clock.h"

namespace pulsegate {

/// A moment as requests name it, in milliseconds since 1970: a string with a date and time by
/// RFC 3339, or a number, a Unix time in seconds. Nothing: it is neither, or not before 2106.
std::optional<WallMillis> moment_in(const boost::json::value& value);

}  // namespace pulsegate
