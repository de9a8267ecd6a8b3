#include "loadgen/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "loadgen/report/checks.h"
#include "loadgen/report/figures.h"
#include "loadgen/report/hostile_effect.h"

namespace pulsegate::load {

namespace {

constexpr double worth_telling = 0.005;

using Better = ComparedFigure::Better;
using Value = std::optional<double>;

/// The parts of a run's record that several rows need, computed once.
struct Condensed {
    const RunRecord& record;
    Measurements part;
    std::vector<Stretch> stretches;
    std::optional<HostileEffect> effect;

    Value quiet_percentile(Timing timing) const {
        return effect ? effect->before.percentile(timing, 0.99) : Value();
    }
    Value hostile_percentile(Timing timing) const {
        return effect ? effect->with.percentile(timing, 0.99) : Value();
    }
    Value count(Count count) const { return static_cast<double>(record.totals[count]); }
    Value rate(Count count) const { return mean_rate(record, count); }
    Value percentile(Timing timing, double fraction) const {
        // Logins are mostly over when the measured part begins. If it has no times, those of the
        // whole run count.
        const auto& times = part[timing].empty() ? record.totals[timing] : part[timing];
        if (times.empty()) return {};
        return seconds(times.percentile(fraction));
    }
    Value mean(Gauge gauge) const {
        const auto level = level_of(stretches, gauge);
        return level ? Value(level->mean) : Value();
    }
    Value most(Gauge gauge) const {
        const auto level = level_of(stretches, gauge);
        return level ? Value(level->most) : Value();
    }
    /// The server's CPU for a packet in either direction.
    Value cpu_per_packet() const {
        const auto cpu = mean(Gauge::server_cpu);
        const double packets = *rate(Count::packets_sent) + *rate(Count::packets_received);
        if (!cpu || packets <= 0) return {};
        return *cpu / packets;
    }
};

struct Row {
    const char* label;
    Unit unit;
    Better better;
    Value (*of)(const Condensed&);
    bool is_servers = true;
};

constexpr std::array rows{
    Row{"clients", Unit::count, Better::neither,
        [](const Condensed& run) { return run.count(Count::entered); }},
    Row{"packets sent", Unit::per_second, Better::neither,
        [](const Condensed& run) { return run.rate(Count::packets_sent); }},
    Row{"packets received", Unit::per_second, Better::neither,
        [](const Condensed& run) { return run.rate(Count::packets_received); }},
    Row{"messages sent", Unit::per_second, Better::neither,
        [](const Condensed& run) { return run.rate(Count::messages_sent); }},
    Row{"message p50", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::message, 0.5); }},
    Row{"message p99", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::message, 0.99); }},
    Row{"message p99.9", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::message, 0.999); }},
    Row{"message max", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::message, 1); }},
    Row{"acknowledgement p99", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::acknowledgement, 0.99); }},
    Row{"ping p99", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::ping, 0.99); }},
    Row{"login p99", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::login, 0.99); }},
    Row{"expiry, latest", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::expiry, 1); }},
    Row{"offline shown p99", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::detection, 0.99); }},
    Row{"back again p99", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::back_again, 0.99); }},
    Row{"false offline", Unit::count, Better::lower,
        [](const Condensed& run) { return run.count(Count::false_offline); }},
    Row{"messages lost", Unit::count, Better::lower,
        [](const Condensed& run) { return run.count(Count::messages_lost); }},
    Row{"message p99, quiet", Unit::time, Better::lower,
        [](const Condensed& run) { return run.quiet_percentile(Timing::message); }},
    Row{"message p99, hostile", Unit::time, Better::lower,
        [](const Condensed& run) { return run.hostile_percentile(Timing::message); }},
    Row{"ping p99, quiet", Unit::time, Better::lower,
        [](const Condensed& run) { return run.quiet_percentile(Timing::ping); }},
    Row{"ping p99, hostile", Unit::time, Better::lower,
        [](const Condensed& run) { return run.hostile_percentile(Timing::ping); }},
    Row{"server CPU", Unit::cores, Better::lower,
        [](const Condensed& run) { return run.mean(Gauge::server_cpu); }},
    Row{"server CPU a packet", Unit::time, Better::lower,
        [](const Condensed& run) { return run.cpu_per_packet(); }},
    Row{"server memory", Unit::bytes, Better::lower,
        [](const Condensed& run) { return run.most(Gauge::server_memory); }},
    Row{"server loop lag", Unit::time, Better::lower,
        [](const Condensed& run) { return run.most(Gauge::server_loop_lag); }},
    Row{"generator CPU", Unit::cores, Better::lower,
        [](const Condensed& run) { return run.mean(Gauge::worker_cpu); }, false},
    Row{"generator lag p99", Unit::time, Better::lower,
        [](const Condensed& run) { return run.percentile(Timing::send_lag, 0.99); }, false},
};

using Outcome = CheckResult::Outcome;

std::optional<Outcome> outcome_in(const RunRecord& record, const std::string& name) {
    const auto found = std::ranges::find(record.checks, name, &CheckResult::name);
    if (found == record.checks.end()) return {};
    return found->outcome;
}

std::optional<Outcome> worst_outcome(std::span<const RunRecord> repeats, const std::string& name) {
    std::optional<Outcome> worst;
    for (const RunRecord& record : repeats) {
        const auto outcome = outcome_in(record, name);
        for (const Outcome worse :
             {Outcome::failed, Outcome::refused, Outcome::passed, Outcome::skipped}) {
            if (worst == worse) break;
            if (outcome == worse) worst = outcome;
        }
    }
    return worst;
}

/// Adds a run with its repeats: their median and spread.
void add_run(ComparedFigure& figure, std::vector<double> values) {
    if (values.empty()) {
        figure.values.emplace_back();
        figure.spreads.emplace_back();
        return;
    }
    std::ranges::sort(values);
    const auto middle = values.size() / 2;
    const bool is_even = values.size() % 2 == 0;
    figure.values.emplace_back(is_even ? (values[middle - 1] + values[middle]) / 2
                                       : values[middle]);
    figure.spreads.push_back({values.front(), values.back()});
}

/// Why checks were not judged; empty if every check was judged. The verdict does not always say
/// this: it names the broken promises, and promises that a slow generator can't seem to break are
/// judged in any case.
std::string why_refused(const RunRecord& record) {
    const CheckResult* refused = nullptr;
    for (const CheckResult& check : record.checks) {
        if (check.outcome != Outcome::refused) continue;
        if (is_own(check))
            return "the generator or its machine was the bottleneck: " + check.detail;
        if (!refused) refused = &check;
    }
    if (!refused) return {};
    return fmt::format("“{}” can't be judged ({})", refused->promise, refused->detail);
}

std::string worse_text(const ComparedFigure& figure, std::size_t at, const std::string& name) {
    const auto difference = figure.difference(at);
    return fmt::format("{} of {}: {} instead of {}{}", figure.label, name,
                       show_figure(*figure.values[at], figure.unit),
                       show_figure(*figure.values[0], figure.unit),
                       difference ? fmt::format(" ({:+.0f} %)", *difference * 100) : "");
}

}  // namespace

std::optional<double> ComparedFigure::difference(std::size_t at) const {
    if (at == 0 || !values[at] || !values[0] || *values[0] == 0) return {};
    const double difference = *values[at] / *values[0] - 1;
    if (std::abs(difference) < worth_telling) return {};
    return difference;
}

bool ComparedFigure::is_worse(std::size_t at, double fraction) const {
    if (better == Better::neither || !is_servers || !values[at] || !values[0]) return false;
    const double sign = better == Better::lower ? 1 : -1;
    const bool overlap = better == Better::lower ? spreads[at].least <= spreads[0].most
                                                 : spreads[at].most >= spreads[0].least;
    return !overlap && (*values[at] - *values[0]) * sign > *values[0] * fraction;
}

std::vector<ComparedFigure> compared_figures(std::span<const RunRecord> records,
                                             std::size_t repeats) {
    std::vector<Condensed> runs;
    for (const auto& record : records)
        runs.push_back(
            {record, measured_part(record), measured_stretches(record), hostile_effect(record)});
    std::vector<ComparedFigure> figures;
    for (const auto& row : rows) {
        ComparedFigure figure{row.label, row.unit, row.better, row.is_servers};
        for (std::size_t first = 0; first < runs.size(); first += repeats) {
            std::vector<double> values;
            for (std::size_t at = first; at < first + repeats; ++at)
                if (const auto value = row.of(runs[at])) values.push_back(*value);
            add_run(figure, std::move(values));
        }
        const bool any = std::ranges::any_of(figure.values, &Value::has_value);
        if (any) figures.push_back(std::move(figure));
    }
    return figures;
}

std::vector<ComparedCheck> compared_checks(std::span<const RunRecord> records,
                                           std::size_t repeats) {
    std::vector<ComparedCheck> checks;
    std::vector<std::string> names;
    for (const auto& record : records) {
        for (const auto& check : record.checks) {
            if (std::ranges::find(names, check.name) != names.end()) continue;
            names.push_back(check.name);
            ComparedCheck compared{check.promise, {}};
            for (std::size_t first = 0; first < records.size(); first += repeats)
                compared.outcomes.push_back(
                    worst_outcome(records.subspan(first, repeats), check.name));
            const auto is_first = [&](const auto& o) { return o == compared.outcomes.front(); };
            const bool alike = std::ranges::all_of(compared.outcomes, is_first);
            const auto first = compared.outcomes.front();
            const bool harmless = first == Outcome::passed || first == Outcome::skipped;
            if (!alike || !harmless) checks.push_back(std::move(compared));
        }
    }
    return checks;
}

Worsening worsening(std::span<const RunRecord> records, std::size_t repeats, double fraction) {
    Worsening found;
    const auto names = names_of(records);
    const auto name = [&](std::size_t run) { return names[run * repeats]; };
    for (const auto& [promise, outcomes] : compared_checks(records, repeats))
        for (std::size_t at = 1; at < outcomes.size(); ++at)
            if (outcomes[at] == Outcome::failed && outcomes[0] != Outcome::failed &&
                outcomes[0] != Outcome::refused)
                found.broken.push_back(fmt::format("{} broke: {}", name(at), promise));
    for (std::size_t at = 0; at < records.size() && found.refused.empty(); ++at)
        if (const auto why = why_refused(records[at]); !why.empty())
            found.refused = fmt::format("{}: {}", names[at], why);
    for (const auto& figure : compared_figures(records, repeats))
        for (std::size_t at = 1; at < figure.values.size(); ++at)
            if (figure.is_worse(at, fraction))
                found.figures.push_back(worse_text(figure, at, name(at)));
    return found;
}

std::vector<std::string> names_of(std::span<const RunRecord> records) {
    std::vector<std::string> names;
    for (const auto& record : records) {
        const std::string base = record.name.empty() ? "run" : record.name;
        std::string name = base;
        for (int copy = 2; std::ranges::find(names, name) != names.end(); ++copy)
            name = fmt::format("{} ({})", base, copy);
        names.push_back(std::move(name));
    }
    return names;
}

}  // namespace pulsegate::load
