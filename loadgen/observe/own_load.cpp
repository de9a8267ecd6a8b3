#include "loadgen/observe/own_load.h"

#include <sys/resource.h>

#include "loadgen/observe/proc.h"

namespace pulsegate::load {

namespace {

Duration of_timeval(const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

Duration own_cpu() {
    rusage usage{};
    if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
    return of_timeval(usage.ru_utime) + of_timeval(usage.ru_stime);
}

/// The wait of the main thread, in which the event loop runs.
Duration own_wait() {
    return waited_for_cpu(text_of_file("/proc/self/schedstat")).value_or(Duration::zero());
}

}  // namespace

OwnLoad::OwnLoad(Time now) : last_(now), cpu_(own_cpu()), waited_(own_wait()) {}

void OwnLoad::sample(Time now, Measurements& into) {
    const double passed = seconds(now - last_);
    if (passed <= 0) return;
    const Duration cpu = own_cpu();
    const Duration waited = own_wait();
    into.set(Gauge::worker_cpu, seconds(cpu - cpu_) / passed);
    into.set(Gauge::worker_cpu_max, seconds(cpu - cpu_) / passed);
    into.set(Gauge::worker_wait, seconds(waited - waited_) / passed);
    last_ = now;
    cpu_ = cpu;
    waited_ = waited;
}

}  // namespace pulsegate::load
