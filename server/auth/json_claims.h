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

/// A JSON object that says one thing only: the parser keeps the last of two members of one name,
/// and who reads it elsewhere may see the first, so there must not be two. Nothing if it is none.
std::optional<boost::json::object> read_object(std::string_view text);

/// Of a value that is a string.
std::string_view text_of(const boost::json::value& value);

/// Whole seconds since 1970; nothing if it is no number, or one past all reason.
std::optional<std::int64_t> seconds_of(const boost::json::value& value);

/// May a client have this name? It must be one that MQTT could spell.
bool valid_user(std::string_view name);

/// Adds what `acl` says to the rules. Returns what is wrong with it, or nothing.
std::string read_rules(const boost::json::value& acl, AccessRules& rules);

}  // namespace pulsegate
