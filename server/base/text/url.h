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

/// Encodes a text for a part of a path or a query: all characters except letters, digits and "-._~"
/// (RFC 3986, 2.1).
std::string percent_encoded(std::string_view text);

/// A name as a segment of a path of the HTTP API: the same, but with a ";" behind "." and "..",
/// which proxies would take out of the path.
std::string path_segment_of(std::string_view name);

/// The URL of a company's backend: `https://host:port/path?query`.
struct HttpUrl {
    bool tls = false;
    std::string host{};
    std::uint16_t port = 0;
    std::string target = "/";

    /// The text for the field Host of a request: without the scheme's usual port.
    std::string authority() const;
};

}  // namespace pulsegate
