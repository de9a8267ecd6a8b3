#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace pulsegate {

/// How many connections another process can have, and how many not, by the reason.
struct ExportCounts {
    std::uint64_t moved = 0;
    std::map<std::string, std::uint64_t> left{};
};

}  // namespace pulsegate
