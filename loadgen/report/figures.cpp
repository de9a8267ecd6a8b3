#include "loadgen/report/figures.h"

#include <algorithm>
#include <limits>

namespace pulsegate::load {

std::vector<Stretch> measured_stretches(const RunRecord& record) {
    const auto part = record.measured();
    if (part.length() <= 0) return record.series;
    std::vector<Stretch> stretches;
    for (const auto& stretch : record.series)
        if (stretch.second >= part.from && stretch.second < part.to) stretches.push_back(stretch);
    return stretches;
}

Measurements measured_part(const RunRecord& record) {
    const auto part = record.measured();
    if (part.length() <= 0) return record.totals;
    return between(record.series, part.from, part.to);
}

std::vector<Stretch> judged_stretches(const RunRecord& record) {
    const auto part = record.measured();
    if (part.length() <= 0) return record.series;
    std::vector<Stretch> stretches;
    for (const auto& stretch : record.series)
        if (stretch.second >= part.from) stretches.push_back(stretch);
    return stretches;
}

Measurements judged_part(const RunRecord& record) {
    const auto part = record.measured();
    if (part.length() <= 0) return record.totals;
    return between(record.series, part.from, std::numeric_limits<double>::infinity());
}

std::vector<Stretch> ramp_stretches(const RunRecord& record) {
    const auto part = record.measured();
    std::vector<Stretch> stretches;
    if (part.length() <= 0) return stretches;
    for (const auto& stretch : record.series)
        if (stretch.second < part.from) stretches.push_back(stretch);
    return stretches;
}

double mean_rate(const RunRecord& record, Count count) {
    std::uint64_t all = 0;
    std::uint32_t time = 0;
    for (const auto& stretch : measured_stretches(record)) {
        all += stretch.measured[count];
        time += stretch.length;
    }
    return time > 0 ? static_cast<double>(all) / time : 0;
}

std::optional<Level> level_of(const std::vector<Stretch>& stretches, Gauge gauge) {
    Level level;
    double time = 0;
    for (const auto& stretch : stretches) {
        const double value = stretch.measured[gauge];
        if (value < 0) continue;
        level.mean += value * stretch.length;
        level.most = std::max(level.most, value);
        time += stretch.length;
    }
    if (time == 0) return {};
    level.mean /= time;
    return level;
}

std::optional<double> cores_of_others(const RunRecord& record, const Measurements& measured) {
    const double busy = measured[Gauge::machine_busy];
    const double server = measured[Gauge::server_cpu];
    if (busy < 0 || record.machine.cores == 0 || record.remote) return {};
    if (record.server.on_this_machine && server < 0) return {};
    const double ours =
        std::max(0.0, measured[Gauge::worker_cpu]) + (record.server.on_this_machine ? server : 0.0);
    return std::max(0.0, busy * record.machine.cores - ours);
}

}  // namespace pulsegate::load
