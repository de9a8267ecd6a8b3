#pragma once

#include "loadgen/results.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// Tells what the established clients met in the quiet before the storm from what they met in it:
/// a message or a ping belongs to the period in which it was planned, whenever its answer comes.
class Periods {
public:
    Periods(Results::Period& quiet, Results::Period& storm) : quiet_(quiet), storm_(storm) {}

    void begin(Time now) { begun_ = now; }
    void strike(Time now) { struck_ = now; }
    void end(Time now) { over_ = now; }

    /// Nothing if it was planned before the quiet or after the storm.
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
