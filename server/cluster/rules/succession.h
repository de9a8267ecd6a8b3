#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// How many of the living nodes may claim a partition before this one: each has a place of its own
/// for each partition, which all nodes know without talking.
std::size_t place_in_succession(unsigned partition, std::string_view self,
                                const std::vector<std::string>& living);

}  // namespace pulsegate
