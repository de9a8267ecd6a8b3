#pragma once

#include "loadgen/results.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// Assigns measurements of the established clients to the quiet before the storm or to the storm: a
/// message or a ping belongs to the period in which it was planned, whenever its answer arrives.
class Periods {
public:
    Periods(Results::Period& quiet, Results::Period& storm) : quiet_(quiet), storm_(storm) {}

    void begin(Time now) { begun_ = now; }
    void strike(Time now) { struck_ = now; }
    void end(Time now) { over_ = now; }

    /// Null if `planned` is before the quiet or after the storm.
    Results::Period* of(Time planned) {
        if (planned < begun_ || planned >= over_) return nullptr;
        return planned < struck_ ? &quiet_ : &storm_;
    }

private:
    Results::Period& quiet_;
    Results::Period& storm_;
    Time begun_ = Time::max();
    Time struck_ = Time::max();
    Time over_ = Time::max();
};

}  // namespace pulsegate::load
