#include "loadgen/observe/description.h"

#include <sys/resource.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <sstream>
#include <thread>

#include "loadgen/observe/proc.h"

namespace pulsegate::load {

namespace {

constexpr std::uint64_t kilobyte = 1024;  // of /proc/meminfo

std::uint64_t memory_of_machine() {
    const auto total = std::string(field_of(text_of_file("/proc/meminfo"), "MemTotal"));
    return std::strtoull(total.c_str(), nullptr, 10) * kilobyte;
}

std::string system_name() {
    utsname names{};
    if (uname(&names) != 0) return {};
    return std::string(names.sysname) + " " + names.release;
}

std::uint32_t local_ports() {
    std::istringstream range(text_of_file("/proc/sys/net/ipv4/ip_local_port_range"));
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    return range >> low >> high && low <= high ? high - low + 1 : 0;
}

/// The limit to which the soft limit on open files can be raised.
std::uint64_t file_limit() {
    rlimit limit{};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 0;
}

}  // namespace

bool ServerDescription::seems_to_be_pulsegate() const {
    const auto program = command.substr(0, command.find(' '));
    return !metrics.empty() || program == "pulsegate" || program.ends_with("/pulsegate");
}

MachineDescription describe_machine() {
    MachineDescription machine;
    machine.cpu = field_of(text_of_file("/proc/cpuinfo"), "model name");
    machine.cores = std::thread::hardware_concurrency();
    machine.memory = memory_of_machine();
    machine.system = system_name();
    machine.files = file_limit();
    machine.ports = local_ports();
    machine.backlog = static_cast<std::uint32_t>(
        std::strtoul(text_of_file("/proc/sys/net/core/somaxconn").c_str(), nullptr, 10));
    return machine;
}

}  // namespace pulsegate::load
