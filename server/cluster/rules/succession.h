#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// How many living nodes may claim a partition before this one. A node's place differs between
/// partitions, and all nodes compute it without communication.
std::size_t place_in_succession(unsigned partition, std::string_view self,
                                const std::vector<std::string>& living);

}  // namespace pulsegate
