#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// Parts of URLs (RFC 3986), for composing and parsing them.

/// The host as written before a port: an IPv6 address gets brackets.
std::string bracketed(std::string_view host);

/// Percent-decoded text; nothing if an escape is malformed or the text is not UTF-8.
std::optional<std::string> percent_decoded(std::string_view text);

/// The value of a query parameter, still percent-encoded; nothing if there is no such parameter.
std::optional<std::string_view> query_value(std::string_view query, std::string_view key);

}  // namespace pulsegate
