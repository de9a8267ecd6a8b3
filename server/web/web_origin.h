#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// Checks which web pages may use a server. Browsers run the scripts of any page, even against
/// servers on loopback and behind a firewall, and state the page's Origin (RFC 6454). Other clients
/// state none.

/// True if a request with these values of Origin and Host may be answered. "" stands for a missing
/// field. `allowed` has origins such as `https://chat.example`, or `*` for all. If it is empty, the
/// page must come from the host that it asks, on any port.
bool origin_allowed(std::string_view origin, std::string_view host,
                    const std::vector<std::string>& allowed);

/// True if this is a host with an optional port, as in a URL and in Host: `chat.example:8080`,
/// `[::1]`.
bool is_authority(std::string_view text);

/// True if this value of Host is `localhost` or a loopback address. The owner of any other name can
/// make it resolve to this machine (DNS rebinding).
bool is_loopback_host(std::string_view host);

}  // namespace pulsegate
