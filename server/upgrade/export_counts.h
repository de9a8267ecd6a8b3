#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace pulsegate {

/// The number of connections that another process can take, and the numbers of all others by
/// reason.
struct ExportCounts {
    std::uint64_t moved = 0;
    std::map<std::string, std::uint64_t> left{};
};

}  // namespace pulsegate
