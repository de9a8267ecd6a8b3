#include "loadgen/observe/machine_load.h"

#include <algorithm>

namespace pulsegate::load {

namespace {

std::optional<CpuTicks> ticks_now() { return cpu_ticks(text_of_file("/proc/stat")); }

}  // namespace

MachineLoad::MachineLoad() : last_(ticks_now()) {}

void MachineLoad::sample(Measurements& into) {
    const auto now = ticks_now();
    const double passed = now && last_ ? now->all - last_->all : 0;
    if (passed > 0) {
        into.set(Gauge::machine_busy, std::clamp((now->busy - last_->busy) / passed, 0.0, 1.0));
        into.set(Gauge::machine_steal,
                 std::clamp((now->stolen - last_->stolen) / passed, 0.0, 1.0));
    }
    last_ = now;
}

}  // namespace pulsegate::load
