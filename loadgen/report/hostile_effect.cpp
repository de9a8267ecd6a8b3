#include "loadgen/report/hostile_effect.h"

#include <algorithm>
#include <cmath>

namespace pulsegate::load {

namespace {

HostileEffect::Side side_of(const RunRecord& record, double from, double to) {
    std::vector<Stretch> stretches;
    std::ranges::copy_if(record.series, std::back_inserter(stretches), [&](const Stretch& stretch) {
        return stretch.second >= from && stretch.second < to;
    });
    HostileEffect::Side side;
    side.measured = between(stretches, from, to);
    for (const Stretch& stretch : stretches) side.length += stretch.length;
    if (const auto cpu = level_of(stretches, Gauge::server_cpu)) side.server_cpu = cpu->mean;
    return side;
}

}  // namespace

std::optional<double> HostileEffect::Side::percentile(Timing timing, double fraction) const {
    const auto& times = measured[timing];
    if (times.empty()) return {};
    return seconds(times.percentile(fraction));
}

std::optional<double> HostileEffect::Side::rate(Count count) const {
    if (length <= 0) return {};
    return static_cast<double>(measured[count]) / length;
}

std::optional<double> HostileEffect::Side::arrived() const {
    const auto sent = measured[Count::messages_sent];
    if (sent == 0) return {};
    return static_cast<double>(measured[Count::messages_received]) / static_cast<double>(sent);
}

std::optional<HostileEffect> hostile_effect(const RunRecord& record) {
    const auto come = record.marked(marks::hostile);
    if (!come) return {};
    const auto part = record.measured();
    HostileEffect effect{side_of(record, std::ceil(part.from), std::floor(*come)),
                         side_of(record, std::floor(*come) + 1, std::floor(part.to))};
    if (effect.before.length <= 0 || effect.with.length <= 0) return {};
    return effect;
}

std::vector<EffectRow> effect_rows(const HostileEffect& effect) {
    std::vector<EffectRow> rows;
    const auto add = [&](std::string_view label, Unit unit, auto value) {
        const EffectRow row{label, unit, value(effect.before), value(effect.with)};
        if (row.before || row.with) rows.push_back(row);
    };
    using Side = HostileEffect::Side;
    const auto percentile = [](Timing timing, double fraction) {
        return [=](const Side& side) { return side.percentile(timing, fraction); };
    };
    add("message p50", Unit::time, percentile(Timing::message, 0.5));
    add("message p99", Unit::time, percentile(Timing::message, 0.99));
    add("ping p50", Unit::time, percentile(Timing::ping, 0.5));
    add("ping p99", Unit::time, percentile(Timing::ping, 0.99));
    add("arrived of sent", Unit::share, [](const Side& side) { return side.arrived(); });
    add("server CPU", Unit::cores, [](const Side& side) { return side.server_cpu; });
    add("false offline", Unit::count, [](const Side& side) {
        return std::optional(static_cast<double>(side.measured[Count::false_offline]));
    });
    add("connects refused", Unit::count, [](const Side& side) {
        return std::optional(static_cast<double>(side.measured[Count::connect_failed] +
                                                 side.measured[Count::refused_busy]));
    });
    return rows;
}

}  // namespace pulsegate::load
