#include "server/limits/admission.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "server/base/log.h"
#include "server/base/machine.h"

namespace pulsegate {

namespace {

/// Taken as the limit on open files when that is "unlimited", so that sums do not overflow.
constexpr rlim_t most_files = 100'000'000;

constexpr std::size_t least_for_unauthenticated = 16 * 1024 * 1024;

std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Resident memory of this process, in bytes.
std::size_t resident() {
    std::ifstream file("/proc/self/statm");
    std::size_t size = 0;
    std::size_t pages = 0;
    file >> size >> pages;
    return pages * page_size();
}

}  // namespace

Admission::Admission(const AdmissionSettings& settings, std::size_t own_files)
    : memory_budget_(settings.memory_budget != 0 ? settings.memory_budget
                                                 : available_memory() / 4 * 3),
      unauthenticated_(std::max(memory_budget_ / 8, least_for_unauthenticated)),
      login_rate_(settings.login_rate) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    file_limit_ = std::min(limit.rlim_cur, most_files);
    capacity_ = file_limit_ > own_files + courtesy ? file_limit_ - own_files - courtesy : 1;
    by_setting_ = settings.max_connections != 0 && settings.max_connections < capacity_;
    if (by_setting_) capacity_ = settings.max_connections;
}

std::string Admission::bound() const {
    return by_setting_ ? "max-connections" : fmt::format("limit on open files: {}", file_limit_);
}

std::optional<Limit> Admission::reached() const {
    if (open() > capacity_) return Limit::max_connections;
    if (memory() > memory_budget_) return Limit::memory_budget;
    return std::nullopt;
}

void Admission::weigh() {
    const auto now = resident();
    const auto before = memory_.exchange(now, std::memory_order_relaxed);
    if (now > memory_budget_ && before <= memory_budget_)
        spdlog::error("{} MiB are in use and memory-budget is {} MiB: new clients are refused",
                      now >> 20, memory_budget_ >> 20);
    if (now <= memory_budget_ && before > memory_budget_)
        spdlog::info("{} MiB are in use: new clients are accepted again", now >> 20);
}

}  // namespace pulsegate
