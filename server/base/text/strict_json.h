#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace pulsegate {

struct ParsedJson {
    boost::json::value value{};
    std::string mistake{};  ///< the mistake in the text, or ""
};

/// Parses a JSON text (RFC 8259). Two members with the same name in an object are a mistake,
/// because this parser would keep the last one while other programs may read the first.
[[nodiscard]] ParsedJson parse_json(std::string_view text);

}  // namespace pulsegate
