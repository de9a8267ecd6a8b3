#include "loadgen/report/hostile_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pulsegate::load {

namespace {

using Part = RunRecord::Part;

struct Parts {
    Part before;
    Part with;
};

Parts parts_of(const RunRecord& record, double come) {
    const auto part = record.measured();
    return {{std::ceil(part.from), std::min(std::floor(come), std::floor(part.to))},
            {std::floor(come) + 1, std::floor(part.to)}};
}

std::vector<Stretch> without_storms(const RunRecord& record, std::vector<Stretch> stretches) {
    for (const auto& [group, storm] : record.storms())
        std::erase_if(stretches, [&part = storm](const Stretch& stretch) {
            return stretch.second <= part.to && stretch.second + stretch.length > part.from;
        });
    return stretches;
}

std::string why_nothing_in(const RunRecord& record, const Part& part, std::string_view name) {
    const auto stretches = whole_stretches(record.series, part.from, part.to);
    if (stretches.empty()) return fmt::format("{} is shorter than a stretch of this run", name);
    if (without_storms(record, stretches).empty()) return fmt::format("{} is all storm", name);
    return {};
}

std::optional<double> sum(std::optional<double> one, std::optional<double> other) {
    return one && other ? std::optional(*one + *other) : std::nullopt;
}

HostileEffect::Side side_of(const RunRecord& record, const Part& part) {
    const auto stretches =
        without_storms(record, whole_stretches(record.series, part.from, part.to));
    HostileEffect::Side side;
    side.measured = between(stretches, part.from, part.to);
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
    const auto [before, with] = parts_of(record, *come);
    const auto& totals = record.totals;
    HostileEffect effect{side_of(record, before), side_of(record, with),
                         totals[Count::messages_expected] <= totals[Count::messages_sent]};
    if (effect.before.length <= 0 || effect.with.length <= 0) return {};
    return effect;
}

std::string why_no_hostile_effect(const RunRecord& record) {
    const auto come = record.marked(marks::hostile);
    if (!come) return "no hostile clients came after a quiet time";
    const auto [before, with] = parts_of(record, *come);
    auto why = why_nothing_in(record, before, "the quiet time");
    return why.empty() ? why_nothing_in(record, with, "the time with hostile clients") : why;
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
    if (effect.one_receiver_each)
        add("arrived of sent", Unit::share, [](const Side& side) { return side.arrived(); });
    add("server CPU", Unit::cores, [](const Side& side) { return side.server_cpu; });
    add("false offline", Unit::per_second,
        [](const Side& side) { return side.rate(Count::false_offline); });
    add("connects refused", Unit::per_second, [](const Side& side) {
        return sum(side.rate(Count::connect_failed), side.rate(Count::refused_busy));
    });
    return rows;
}

}  // namespace pulsegate::load
