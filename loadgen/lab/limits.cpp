#include "loadgen/lab/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace pulsegate::load {

namespace {

std::uint64_t raised_file_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return MachineLimits{}.files;
    const rlim_t soft = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : soft;
}

/// The first number of a file, or else what we assume.
template <class Number>
Number number_in(const char* file, Number otherwise) {
    std::ifstream in(file);
    Number number{};
    return in >> number && number > 0 ? number : otherwise;
}

std::uint64_t free_memory(std::uint64_t otherwise) {
    std::ifstream in("/proc/meminfo");
    for (std::string name, unit; in >> name;) {
        std::uint64_t kilobytes = 0;
        if (name == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
        std::getline(in, unit);
    }
    return otherwise;
}

}  // namespace

MachineLimits survey_limits() {
    MachineLimits limits;
    limits.files = raised_file_limit();
    limits.all_files = number_in("/proc/sys/fs/file-max", limits.all_files);
    limits.backlog = number_in("/proc/sys/net/core/somaxconn", limits.backlog);
    limits.memory = free_memory(limits.memory);
    limits.cores = std::max(1u, std::thread::hardware_concurrency());

    std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
    if (std::uint32_t low = 0, high = 0; range >> low >> high && low <= high)
        limits.ports = high - low + 1;
    return limits;
}

}  // namespace pulsegate::load
