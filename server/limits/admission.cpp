#include "server/limits/admission.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "server/base/files/unique_fd.h"
#include "server/base/log.h"
#include "server/base/machine.h"

namespace pulsegate {

namespace {

/// Taken as the limit on open files when that is "unlimited", so that sums do not overflow.
constexpr rlim_t most_files = 100'000'000;

constexpr std::size_t least_for_unauthenticated = 16 * 1024 * 1024;

std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Resident memory of this process, in bytes; 0 if it is unknown. It is asked for twenty times a
/// second, and to open the file each time would take most of the cost.
std::size_t resident() {
    static const UniqueFd file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    std::array<char, 128> text{};  // the size, the resident pages, and more, all in pages
    const auto size = ::pread(file.get(), text.data(), text.size(), 0);
    if (size <= 0) return 0;
    const std::string_view line(text.data(), static_cast<std::size_t>(size));
    std::size_t pages = 0;
    if (const auto blank = line.find(' '); blank != line.npos)
        std::from_chars(line.data() + blank + 1, line.data() + line.size(), pages);
    return pages * page_size();
}

/// Returns what it has become.
std::size_t raise_file_limit() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    return std::min(limit.rlim_cur, most_files);
}

}  // namespace

Admission::Admission(const AdmissionSettings& settings, std::size_t own_files)
    : file_limit_(raise_file_limit()), login_rate_(settings.login_rate) {
    use(settings, own_files);
}

void Admission::use(const AdmissionSettings& settings, std::size_t own_files) {
    const auto room =
        file_limit_ > own_files + most_told_why ? file_limit_ - own_files - most_told_why : 1;
    const bool by_setting = settings.max_connections != 0 && settings.max_connections < room;
    const auto capacity = by_setting ? settings.max_connections : room;
    by_setting_ = by_setting;
    capacity_ = capacity;
    // Below what is open already, new connections are still to be told why they are refused.
    most_accepted_ = std::max(capacity, std::min(open(), room)) + most_told_why;
    const auto budget =
        settings.memory_budget != 0 ? settings.memory_budget : available_memory() / 4 * 3;
    memory_budget_ = budget;
    unauthenticated_.use(std::max(budget / 8, least_for_unauthenticated));
    login_rate_.use(settings.login_rate);
}

std::string Admission::bound() const {
    return by_setting_ ? "max-connections" : fmt::format("limit on open files: {}", file_limit_);
}

std::optional<Limit> Admission::reached() const {
    if (open() > capacity()) return Limit::max_connections;
    if (exceeded()) return Limit::memory_budget;
    return std::nullopt;
}

/// It takes longer the more is free, and memory that is needed again must be taken again. So it
/// gets a hundredth of the time, or a tenth while memory grows into the reserve. A long one does
/// not get a tenth, because an event loop stands still meanwhile.
bool Admission::give_back(std::size_t used) {
    constexpr Millis short_time = 20;
    const std::size_t budget = memory_budget();
    if (used <= budget / 8 * 7) return false;
    const bool grows = used > after_return_.load(std::memory_order_relaxed) + budget / 64 &&
                       used > budget / 16 * 15;
    const Millis began = monotonic_now();
    if (began < (grows ? next_return_if_grows_ : next_return_)) return false;
    if (gives_back_.exchange(true)) return false;
    malloc_trim(0);
    const Millis ended = monotonic_now();
    const Millis took = std::max<Millis>(ended - began, 1);
    next_return_ = ended + 100 * took;
    next_return_if_grows_ = ended + (took <= short_time ? 10 : 100) * took;
    after_return_ = resident();
    gives_back_ = false;
    return true;
}

void Admission::weigh() {
    auto now = resident();
    if (give_back(now)) now = resident();
    memory_.store(now, std::memory_order_relaxed);
    const auto budget = memory_budget();
    const bool is_exceeded = now > budget;
    if (is_exceeded_.load(std::memory_order_relaxed) == is_exceeded ||
        is_exceeded_.exchange(is_exceeded) == is_exceeded)
        return;
    if (is_exceeded)
        spdlog::error("{} MiB are in use and memory-budget is {} MiB: new clients are refused",
                      now >> 20, budget >> 20);
    else
        spdlog::info("{} MiB are in use: new clients are accepted again", now >> 20);
}

}  // namespace pulsegate
