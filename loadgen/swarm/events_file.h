#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"

namespace pulsegate::load {

/// Reads the changes of presence that the server appends to its events file (`--events`), for the
/// clients of this worker.
class EventsFile {
public:
    /// Ignores the existing content of the file. Throws `std::runtime_error` if the file can't be
    /// read.
    EventsFile(SwarmState& state, Watchers& watchers);

    void turn(Time now);

private:
    void read_line(Time now);

    SwarmState& state_;
    Watchers& watchers_;
    std::ifstream file_;
    std::string line_;  ///< the beginning of a line, until the rest is written
    Time next_{};
};

}  // namespace pulsegate::load
