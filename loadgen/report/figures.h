#pragma once

#include <optional>
#include <vector>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// The stretches of the measured part; all stretches if the run did not get there.
std::vector<Stretch> measured_stretches(const RunRecord& record);

/// The sum of `measured_stretches`.
Measurements measured_part(const RunRecord& record);

/// The stretches from the beginning of the measured part to the end, including the drain and the
/// judging.
std::vector<Stretch> judged_stretches(const RunRecord& record);
Measurements judged_part(const RunRecord& record);

/// The stretches before them.
std::vector<Stretch> ramp_stretches(const RunRecord& record);

/// The mean rate per second in the measured part.
double mean_rate(const RunRecord& record, Count count);

/// The values of a level in the measured part, as far as it was visible.
struct Level {
    double mean = 0;
    double most = 0;
};
std::optional<Level> level_of(const std::vector<Stretch>& stretches, Gauge gauge);

/// The part of the time in which `holds(measured)`; 0 if there was none.
template <class Holds>
double share_of_time(const std::vector<Stretch>& stretches, Holds holds) {
    double all = 0;
    double held = 0;
    for (const auto& stretch : stretches) {
        all += stretch.length;
        if (holds(stretch.measured)) held += stretch.length;
    }
    return all > 0 ? held / all : 0;
}

/// The mean of `value_of(measured)` over the time; 0 if there was none.
template <class ValueOf>
double mean_of(const std::vector<Stretch>& stretches, ValueOf value_of) {
    double all = 0;
    double sum = 0;
    for (const auto& stretch : stretches) {
        all += stretch.length;
        sum += value_of(stretch.measured) * stretch.length;
    }
    return all > 0 ? sum / all : 0;
}

/// The cores that programs other than the server and the generator used. Nothing if this is not
/// known, because the server is on this machine but its process is not visible.
std::optional<double> cores_of_others(const RunRecord& record, const Measurements& measured);

}  // namespace pulsegate::load
