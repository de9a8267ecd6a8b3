#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace pulsegate {

/// The limits of this process' control groups (cgroups(7)), such as those of a systemd unit or a
/// container. Nothing where there is no limit.
struct ControlGroupLimits {
    std::optional<std::uint64_t> memory;         ///< bytes
    std::optional<std::uint64_t> unused_memory;  ///< bytes that it may still take
    std::optional<double> processors;            ///< how many it may use at once, on average
};

/// The lowest limits of its own group and of all groups above it, version 2 or 1. `membership` is
/// in the format of /proc/self/cgroup, `root` is where the hierarchies are mounted.
ControlGroupLimits control_group_limits(const std::string& membership = "/proc/self/cgroup",
                                        const std::string& root = "/sys/fs/cgroup");

/// Bytes of memory that this process may use: the machine's, or less.
std::size_t available_memory();

/// Bytes of memory that this process may still take without swapping: the machine's, or less.
std::size_t unused_memory();

/// Bytes of memory that this process has, without the files that it shares with others.
std::size_t own_memory();

/// Processors that this process may use, 1 or more: by its affinity, or less by its control group.
unsigned available_processors();

/// Names the calling thread for `top -H`, perf and debuggers, which show the first 15 characters.
void name_thread(const std::string& name);

}  // namespace pulsegate
