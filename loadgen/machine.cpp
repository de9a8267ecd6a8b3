#include "loadgen/machine.h"

#include <sys/resource.h>

#include <fstream>

namespace pulsegate::load {

namespace {

std::uint64_t raise_file_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Machine{}.files;
    const rlim_t soft = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : soft;
}

}  // namespace

Machine survey_machine() {
    Machine machine;
    machine.files = raise_file_limit();

    std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
    if (std::uint32_t low = 0, high = 0; range >> low >> high && low <= high)
        machine.ports = high - low + 1;

    std::ifstream backlog("/proc/sys/net/core/somaxconn");
    if (std::uint32_t most = 0; backlog >> most && most > 0) machine.backlog = most;
    return machine;
}

}  // namespace pulsegate::load
