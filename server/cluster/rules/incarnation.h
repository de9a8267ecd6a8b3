#pragma once

#include <string>
#include <string_view>

namespace pulsegate {

/// An incarnation of a node: its name, '#' and 64 random bits. It is new at each start, and after
/// the node was condemned.
std::string new_incarnation(std::string_view node_name);

std::string_view node_name_of(std::string_view incarnation);

/// Names are compared, shown and put between spaces: 1 to 64 of A-Z a-z 0-9 . _ -
bool is_node_name(std::string_view name);

}  // namespace pulsegate
