#pragma once

#include <cstdint>
#include <string>

namespace pulsegate::load {

/// The machine that a generator runs on. Members that could not be read are empty or 0.
struct MachineDescription {
    std::string cpu;  ///< "Intel(R) Xeon(R) CPU @ 2.80GHz"
    std::uint32_t cores = 0;
    std::uint64_t memory = 0;  ///< bytes
    std::string system;        ///< "Linux 6.1.0"
    std::uint64_t files = 0;   ///< open files that a process may have, after raising the soft limit
    std::uint32_t ports = 0;   ///< local ports of one source address towards one server
    std::uint32_t backlog = 0;  ///< connections that can wait at a listener of this machine
};

MachineDescription describe_machine();

/// The facts about the server that can be seen from outside.
struct ServerDescription {
    bool on_this_machine = false;
    std::uint32_t pid = 0;  ///< 0: its process is not visible
    std::string command;    ///< its command line
    std::string metrics;    ///< the URL of its metrics, if they could be read

    /// True if the process has the name of Pulsegate's program, or the metrics are Pulsegate's.
    bool seems_to_be_pulsegate() const;
};

}  // namespace pulsegate::load
