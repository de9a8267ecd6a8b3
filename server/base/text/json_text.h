#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

namespace pulsegate {

/// A JSON text (RFC 8259) for people as well as for programs. Boost writes the numbers 0 and 12.5
/// as 0E0 and 1.25E1; here they are 0 and 12.5.
[[nodiscard]] std::string json_text(const boost::json::value& value);
[[nodiscard]] std::string json_text(const boost::json::object& object);

}  // namespace pulsegate
