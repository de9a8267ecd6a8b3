#pragma once

#include "loadgen/measure/measurements.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// What this process uses of the machine, from one call to the next: each worker has one.
class OwnLoad {
public:
    explicit OwnLoad(Time now);

    /// Sets `worker_cpu`, `worker_cpu_max` and `worker_wait`.
    void sample(Time now, Measurements& into);

private:
    Time last_;
    Duration cpu_;
    Duration waited_;
};

}  // namespace pulsegate::load
