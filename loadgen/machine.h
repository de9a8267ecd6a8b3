#pragma once

#include <cstdint>

namespace pulsegate::load {

/// The limits of the machine for a generator.
struct Machine {
    std::uint64_t files = 1024;    ///< open files of this process
    std::uint32_t ports = 28'232;  ///< local ports of one source address towards one server
    std::uint32_t backlog = 4096;  ///< connections that can wait at a listener of this machine
};

/// Raises the soft limit on open files to the hard one, and reads the limits.
Machine survey_machine();

}  // namespace pulsegate::load
