#pragma once

#include <cstdint>

namespace pulsegate {

/// The kernel's figures for this process (proc(5)). A value that can't be read is 0.
struct ProcessUsage {
    double cpu_seconds = 0;
    double start_time = 0;  ///< seconds since 1970
    std::uint64_t virtual_memory = 0;
    std::uint64_t resident_memory = 0;
    std::uint64_t threads = 0;
    std::uint64_t open_files = 0;
    std::uint64_t max_files = 0;
};

ProcessUsage process_usage();

}  // namespace pulsegate
