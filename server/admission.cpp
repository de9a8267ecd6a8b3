#include "server/admission.h"

#include <sys/resource.h>

#include <algorithm>

namespace pulsegate {

namespace {

/// No process has more connections; keeps the sum below in range when the limit is "unlimited".
constexpr rlim_t most_files = 100'000'000;

}  // namespace

Admission::Admission(std::size_t own_files) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    file_limit_ = std::min(limit.rlim_cur, most_files);
    capacity_ = file_limit_ > own_files + courtesy ? file_limit_ - own_files - courtesy : 1;
}

}  // namespace pulsegate
