#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsegate {

/// Parts of URLs (RFC 3986), for composing and parsing them.

/// The host as written before a port: an IPv6 address gets brackets.
std::string bracketed(std::string_view host);

/// Percent-decoded text; nothing if an escape is malformed or the text is not UTF-8.
std::optional<std::string> percent_decoded(std::string_view text);

/// The text for a part of a path or a query: all but letters, digits and "-._~" is encoded (RFC
/// 3986, 2.1).
std::string percent_encoded(std::string_view text);

/// Where a company's backend is asked: `https://host:port/path?query`.
struct HttpUrl {
    bool tls = false;
    std::string host{};
    std::uint16_t port = 0;
    std::string target = "/";

    /// As the Host of a request has it: without the scheme's usual port.
    std::string authority() const;
};

}  // namespace pulsegate
