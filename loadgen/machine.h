#pragma once

#include <cstdint>

namespace pulsegate::load {

/// What the machine allows a generator.
struct Machine {
    std::uint64_t files = 1024;    ///< open files of this process
    std::uint32_t ports = 28'232;  ///< local ports of one source address towards one server
    std::uint32_t backlog = 4096;  ///< logins that a listener of this machine can have waiting
};

/// Raises the soft file limit to the hard one and looks around.
Machine survey_machine();

}  // namespace pulsegate::load
