#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/auth/access.h"

namespace pulsegate {

/// Parses a text with `parse_json`; nothing if it is not an object.
[[nodiscard]] std::optional<boost::json::object> read_object(std::string_view text);

/// The text of a value that must be a string.
[[nodiscard]] std::string_view text_of(const boost::json::value& value);

/// Whole seconds since 1970; nothing if the value is not a number, or beyond 9e15.
[[nodiscard]] std::optional<std::int64_t> seconds_of(const boost::json::value& value);

/// True if this can be an MQTT username: UTF-8, 1 to 65,535 bytes.
[[nodiscard]] bool valid_user(std::string_view name);

/// Appends the rules in the array `acl`. Returns its mistake, or "".
[[nodiscard]] std::string read_rules(const boost::json::value& acl, AccessRules& rules);

}  // namespace pulsegate
