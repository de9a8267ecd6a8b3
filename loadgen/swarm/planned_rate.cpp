#include "loadgen/swarm/planned_rate.h"

#include <algorithm>

namespace pulsegate::load {

double PlannedRate::rate_at(Time time) const {
    double rate = rate_;
    for (const Peak& peak : peaks_)
        if (time >= start_ + peak.from && time < start_ + peak.to) rate *= peak.factor;
    return rate;
}

Time PlannedRate::change_after(Time time) const {
    Time change = Time::max();
    for (const Peak& peak : peaks_)
        for (const Time edge : {start_ + peak.from, start_ + peak.to})
            if (edge > time) change = std::min(change, edge);
    return change;
}

// Moves `next_` forward by the time in which the rate makes this number of events, which may be a
// fraction.
void PlannedRate::advance(double events) {
    while (true) {
        const double rate = rate_at(next_);
        const Time change = change_after(next_);
        if (change == Time::max()) {
            next_ = rate > 0 ? next_ + from_seconds(events / rate) : Time::max();
            return;
        }
        const double until_change = seconds(change - next_) * rate;
        if (events < until_change) {
            next_ += from_seconds(events / rate);
            return;
        }
        events -= until_change;
        next_ = change;
    }
}

}  // namespace pulsegate::load
