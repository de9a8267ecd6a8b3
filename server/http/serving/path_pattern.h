#pragma once

#include <optional>
#include <string_view>

namespace pulsegate {

// The path of a route: `/api/v1/users/{user}/revoke` is a pattern in which a segment in braces
// stands for any that is not empty. A slash within a name is percent-encoded.

/// Is it a path of this pattern?
bool path_matches(std::string_view pattern, std::string_view path);

/// What a path of this pattern has for `{name}`, percent-encoded; nothing if the pattern has no
/// such segment.
std::optional<std::string_view> path_segment(std::string_view pattern, std::string_view path,
                                             std::string_view name);

}  // namespace pulsegate
