#pragma once

#include <cstdint>
#include <string>

namespace pulsegate::load {

/// A worker: carries out its part of the runs that a coordinator sends over a control connection,
/// until the coordinator is gone. Both functions return the exit status.
int work_for_parent(int socket);
int work_for(const std::string& host, std::uint16_t port, const std::string& token);

}  // namespace pulsegate::load
