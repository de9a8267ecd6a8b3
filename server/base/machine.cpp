#include "server/base/machine.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

namespace pulsegate {

namespace {

template <class Value>
void lower(std::optional<Value>& least, Value value) {
    least = std::min(least.value_or(value), value);
}

/// The number at the beginning of a file. Nothing for "max", or if there is no such file.
std::optional<std::int64_t> number_in(const std::string& file) {
    std::ifstream in(file);
    std::int64_t number = 0;
    if (in >> number) return number;
    return std::nullopt;
}

/// The number after a name in a file with a name and a number on each line.
std::optional<std::int64_t> number_in(const std::string& file, std::string_view name) {
    std::ifstream in(file);
    std::int64_t number = 0;
    for (std::string line, word; std::getline(in, line);)
        if (std::istringstream words(line); words >> word >> number && word == name) return number;
    return std::nullopt;
}

/// The names of a control group's files.
struct MemoryFiles {
    const char* most;
    const char* current;
    const char* cache;   ///< a line of memory.stat; the kernel takes this part back if needed,
    const char* shared;  ///< but not this part of it
};

void lower_memory(ControlGroupLimits& limits, const std::string& group, const MemoryFiles& names) {
    const auto most = number_in(group + names.most);
    if (!most || *most < 0) return;
    lower(limits.memory, static_cast<std::uint64_t>(*most));
    const auto cache = number_in(group + "/memory.stat", names.cache).value_or(0) -
                       number_in(group + "/memory.stat", names.shared).value_or(0);
    const auto current = number_in(group + names.current).value_or(0);
    const auto used = std::clamp<std::int64_t>(current - cache, 0, *most);
    lower(limits.unused_memory, static_cast<std::uint64_t>(*most - used));
}

void lower_processors(ControlGroupLimits& limits, std::int64_t quota, std::int64_t period) {
    if (quota > 0 && period > 0)
        lower(limits.processors, static_cast<double>(quota) / static_cast<double>(period));
}

/// Applies the limits of a control group of version 2.
void lower_by_v2(ControlGroupLimits& limits, const std::string& group) {
    lower_memory(
        limits, group,
        {.most = "/memory.max", .current = "/memory.current", .cache = "file", .shared = "shmem"});
    std::ifstream in(group + "/cpu.max");
    std::int64_t quota = 0;
    std::int64_t period = 0;
    if (in >> quota >> period) lower_processors(limits, quota, period);
}

/// Applies the limits of a control group of version 1. Each hierarchy has some of these files.
void lower_by_v1(ControlGroupLimits& limits, const std::string& group) {
    lower_memory(limits, group,
                 {.most = "/memory.limit_in_bytes",
                  .current = "/memory.usage_in_bytes",
                  .cache = "total_cache",
                  .shared = "total_shmem"});
    lower_processors(limits, number_in(group + "/cpu.cfs_quota_us").value_or(0),
                     number_in(group + "/cpu.cfs_period_us").value_or(0));
}

/// Calls `look(folder)` for the group `path` below `mount`, and for each group above it up to the
/// mount. In a container, the path may be the host's, and only the mount exists.
template <class Look>
void walk_up(const std::string& mount, std::string path, Look look) {
    for (; !path.empty(); path.erase(path.rfind('/'))) look(mount + path);
    look(mount);
}

}  // namespace

ControlGroupLimits control_group_limits(const std::string& membership, const std::string& root) {
    ControlGroupLimits limits;
    std::ifstream in(membership);
    // "0::/path" for version 2, "4:cpu,cpuacct:/path" for a hierarchy of version 1.
    for (std::string line; std::getline(in, line);) {
        const auto first = line.find(':');
        const auto second = line.find(':', first + 1);
        if (first == line.npos || second == line.npos) continue;
        const auto controllers = line.substr(first + 1, second - first - 1);
        const auto path = line.substr(second + 1);
        if (!path.starts_with('/')) continue;
        if (controllers.empty())
            walk_up(root, path, [&](const std::string& group) { lower_by_v2(limits, group); });
        else
            walk_up(std::string(root).append("/").append(controllers), path,
                    [&](const std::string& group) { lower_by_v1(limits, group); });
    }
    return limits;
}

std::size_t available_memory() {
    const auto physical = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return std::min(physical, control_group_limits().memory.value_or(physical));
}

std::size_t unused_memory() {
    constexpr std::int64_t kibibyte = 1024;
    const auto of_machine = number_in("/proc/meminfo", "MemAvailable:");
    const auto unused = of_machine ? static_cast<std::uint64_t>(*of_machine * kibibyte)
                                   : std::numeric_limits<std::uint64_t>::max();
    return std::min(unused, control_group_limits().unused_memory.value_or(unused));
}

std::size_t own_memory() {
    constexpr std::int64_t kibibyte = 1024;
    return static_cast<std::size_t>(number_in("/proc/self/status", "RssAnon:").value_or(0) *
                                    kibibyte);
}

unsigned available_processors() {
    cpu_set_t mine;
    const bool known = sched_getaffinity(0, sizeof mine, &mine) == 0;
    // The call fails on machines with more processors than fit into the set.
    const auto by_affinity = known ? CPU_COUNT(&mine) : sysconf(_SC_NPROCESSORS_ONLN);
    const auto most = static_cast<unsigned>(std::max<long>(by_affinity, 1));
    const auto quota = control_group_limits().processors;
    if (!quota || *quota >= most) return most;
    return std::max(1u, static_cast<unsigned>(std::ceil(*quota)));
}

void name_thread(const std::string& name) {
    constexpr std::size_t most = 15;
    ::pthread_setname_np(::pthread_self(), name.substr(0, most).c_str());
}

}  // namespace pulsegate
