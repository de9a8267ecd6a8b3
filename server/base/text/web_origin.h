#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// Which web pages a server lets in. Browsers run the scripts of any page, also against servers on
/// loopback and behind a firewall, and state the page's Origin (RFC 6454); other clients state
/// none.

/// May a request with these values of Origin and Host be answered? "" stands for a field that is
/// missing. `allowed` has origins such as `https://chat.example`, or `*` for all; if it is empty,
/// the page must come from the host that it asks, whatever the ports.
bool origin_allowed(std::string_view origin, std::string_view host,
                    const std::vector<std::string>& allowed);

/// Is this a host with an optional port, as in a URL and in Host: `chat.example:8080`, `[::1]`?
bool is_authority(std::string_view text);

/// Is this value of Host this machine by itself: `localhost`, or a loopback address as such? Any
/// other name can be made to lead here by its owner (DNS rebinding).
bool is_loopback_host(std::string_view host);

}  // namespace pulsegate
