#pragma once

#include <optional>
#include <string_view>

namespace pulsegate {

// The path of a route: `/api/v1/users/{user}/revoke` is a pattern in which a segment in braces
// matches any that is not empty. A slash within a name is percent-encoded. The names "." and ".."
// are written ".;" and "..;": clients and proxies take the segments "." and ".." out of paths, also
// if they are percent-encoded, and "/api/v1/users/./inbox" would become the path of the user
// "inbox".

/// True if the path matches the pattern.
bool path_matches(std::string_view pattern, std::string_view path);

/// The segment of a matching path for `{name}`, percent-encoded and without the ";" behind dots;
/// nothing if the pattern has no such segment.
std::optional<std::string_view> path_segment(std::string_view pattern, std::string_view path,
                                             std::string_view name);

}  // namespace pulsegate
