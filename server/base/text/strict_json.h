#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace pulsegate {

struct ParsedJson {
    boost::json::value value{};
    std::string mistake{};  ///< what is wrong with the text; "": nothing
};

/// Parses a JSON text (RFC 8259). Two members of one name in an object are a mistake: this parser
/// would keep the last one, and other programs may read the first.
[[nodiscard]] ParsedJson parse_json(std::string_view text);

}  // namespace pulsegate
