#pragma once

#include <optional>

#include "loadgen/measure/measurements.h"
#include "loadgen/observe/proc.h"

namespace pulsegate::load {

/// The load of this machine, from one call to the next.
class MachineLoad {
public:
    MachineLoad();

    /// Sets `machine_busy` and `machine_steal`.
    void sample(Measurements& into);

private:
    std::optional<CpuTicks> last_;
};

}  // namespace pulsegate::load
