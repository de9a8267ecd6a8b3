#include "server/http/metrics/process_usage.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace pulsegate {

namespace {

constexpr const char* descriptors = "/proc/self/fd";

/// The fields of /proc/self/stat from the third on: the second may hold blanks and brackets.
std::vector<std::uint64_t> fields_of_stat() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    const auto end_of_name = line.rfind(')');
    if (end_of_name == std::string::npos) return {};
    std::istringstream rest(line.substr(end_of_name + 1));
    std::vector<std::uint64_t> fields = {0};  // the state, a letter
    std::string letter;
    rest >> letter;
    // Negative ones, such as the priority, are of no interest here.
    for (std::int64_t value = 0; rest >> value;)
        fields.push_back(static_cast<std::uint64_t>(value));
    return fields;
}

/// When the machine was started, in seconds since 1970.
std::uint64_t boot_time() {
    std::ifstream file("/proc/stat");
    std::string word;
    std::uint64_t seconds = 0;
    while (file >> word)
        if (word == "btime" && file >> seconds) return seconds;
    return 0;
}

/// Since Linux 6.2 the folder's size is the number; before, they are counted.
std::uint64_t count_descriptors() {
    struct stat about {};
    if (::stat(descriptors, &about) == 0 && about.st_size > 0)
        return static_cast<std::uint64_t>(about.st_size);
    std::error_code error;
    const std::filesystem::directory_iterator all(descriptors, error);
    if (error) return 0;
    const auto count = std::distance(begin(all), end(all));
    return static_cast<std::uint64_t>(count) - 1;  // one is the folder's own
}

}  // namespace

ProcessUsage process_usage() {
    // proc(5) numbers the fields from 1 on; the first of these is its third.
    constexpr std::size_t utime = 14 - 3, stime = 15 - 3, threads = 20 - 3, start = 22 - 3,
                          vsize = 23 - 3, rss = 24 - 3;
    ProcessUsage usage;
    const auto fields = fields_of_stat();
    if (fields.size() > rss) {
        const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
        usage.cpu_seconds = static_cast<double>(fields[utime] + fields[stime]) / ticks;
        usage.start_time =
            static_cast<double>(boot_time()) + static_cast<double>(fields[start]) / ticks;
        usage.threads = fields[threads];
        usage.virtual_memory = fields[vsize];
        usage.resident_memory = fields[rss] * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    }
    usage.open_files = count_descriptors();
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.max_files = limit.rlim_cur;
    return usage;
}

}  // namespace pulsegate
