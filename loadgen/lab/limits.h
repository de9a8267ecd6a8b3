#pragma once

#include <cstdint>

namespace pulsegate::load {

/// The machine's limits for a generator.
struct MachineLimits {
    std::uint64_t files = 1024;         ///< open files of one process
    std::uint64_t all_files = 1 << 20;  ///< open files of the whole machine
    std::uint32_t ports = 28'232;       ///< local ports of one source address towards one server
    std::uint32_t backlog = 4096;       ///< connections that can wait at a listener here
    std::uint64_t memory = 1ull << 34;  ///< free bytes
    std::uint32_t cores = 1;
};

/// Raises the soft limit on open files to the hard one, and reads the limits.
MachineLimits survey_limits();

}  // namespace pulsegate::load
