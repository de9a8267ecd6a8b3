#pragma once

#include "loadgen/measure/measurements.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// The load of this process, from one call to the next. Each worker has one.
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
