#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/time.h"

namespace pulsegate::load {

/// Readers of Linux's /proc: they take the texts of its files, see proc(5).

/// A listening socket in /proc/net/tcp or tcp6.
struct ListeningSocket {
    std::string address;  ///< "0.0.0.0", "::1"
    std::uint16_t port = 0;
    std::uint64_t inode = 0;
};
std::vector<ListeningSocket> listening_sockets(std::string_view net_tcp);

/// Values of /proc/PID/stat.
struct ProcessStat {
    Duration cpu{};  ///< since it began, in user and in kernel mode
    std::uint32_t threads = 0;
    std::uint64_t memory = 0;  ///< bytes, resident
};
std::optional<ProcessStat> process_stat(std::string_view stat, long ticks_a_second, long page);

/// The first line of /proc/stat, in clock ticks of all cores.
struct CpuTicks {
    double busy = 0;    ///< time of programs; interrupts are left out, because they belong to their
                        ///< cause
    double stolen = 0;  ///< given to others by the hypervisor
    double all = 0;
};
std::optional<CpuTicks> cpu_ticks(std::string_view stat);

/// The second number of /proc/PID/schedstat: how long it was ready to run, but other programs ran.
std::optional<Duration> waited_for_cpu(std::string_view schedstat);

/// The text after "name:" in /proc/cpuinfo, /proc/meminfo and similar files; empty if it isn't
/// there.
std::string_view field_of(std::string_view text, std::string_view name);

/// A whole file; empty if it can't be read.
std::string text_of_file(const std::string& path);

}  // namespace pulsegate::load
