#include "loadgen/report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <cmath>
#include <map>

#include "loadgen/report/checks.h"
#include "loadgen/report/comparison.h"
#include "loadgen/report/hostile_effect.h"
#include "loadgen/report/labels.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace json = boost::json;

namespace {

// -- texts

json::array checks_data(const std::vector<CheckResult>& checks) {
    json::array list;
    for (const auto& check : checks)
        list.push_back(json::object{{"promise", check.promise},
                                    {"outcome", word(check.outcome)},
                                    {"detail", check.detail}});
    return list;
}

json::array percentiles_data(const Measurements& totals) {
    json::array rows;
    for (std::size_t at = 0; at < timings_size; ++at) {
        const auto timing = static_cast<Timing>(at);
        const auto& times = totals[timing];
        if (times.empty()) continue;
        json::array cells;
        for (const double fraction : {0.5, 0.99, 0.999, 1.0})
            cells.push_back(json::value(show(times.percentile(fraction))));
        rows.push_back(json::object{{"label", label_of(timing)},
                                    {"meaning", info(timing).meaning},
                                    {"cells", std::move(cells)}});
    }
    return rows;
}

json::array effect_data(const RunRecord& record) {
    json::array rows;
    const auto effect = hostile_effect(record);
    if (!effect) return rows;
    for (const auto& [label, unit, before, with] : effect_rows(*effect))
        rows.push_back(json::object{{"label", label},
                                    {"before", before ? show_figure(*before, unit) : "–"},
                                    {"with", with ? show_figure(*with, unit) : "–"}});
    return rows;
}

json::array marks_data(const std::vector<Mark>& marks) {
    json::array list;
    for (const auto& mark : marks)
        list.push_back(json::object{{"at", mark.at}, {"text", mark.text}});
    return list;
}

/// "better" or "worse" than the first run, if the difference is large enough to matter.
const char* tone_of(const ComparedFigure& figure, double difference) {
    constexpr double of_note = 0.05;
    if (figure.better == ComparedFigure::Better::neither || std::abs(difference) < of_note)
        return "";
    const bool lower = difference < 0;
    return lower == (figure.better == ComparedFigure::Better::lower) ? "better" : "worse";
}

json::array figures_data(std::span<const RunRecord> records) {
    json::array rows;
    for (const auto& figure : compared_figures(records)) {
        json::array cells;
        for (std::size_t at = 0; at < figure.values.size(); ++at) {
            json::object cell{{"text", "–"}, {"difference", ""}, {"tone", ""}};
            if (const auto& value = figure.values[at])
                cell["text"] = show_figure(*value, figure.unit);
            if (const auto difference = figure.difference(at)) {
                cell["difference"] = fmt::format("{:+.0f} %", *difference * 100);
                cell["tone"] = tone_of(figure, *difference);
            }
            cells.push_back(std::move(cell));
        }
        rows.push_back(json::object{{"label", figure.label}, {"cells", std::move(cells)}});
    }
    return rows;
}

json::array compared_checks_data(std::span<const RunRecord> records) {
    json::array rows;
    for (const auto& check : compared_checks(records)) {
        json::array outcomes;
        for (const auto& outcome : check.outcomes)
            outcomes.push_back(outcome ? json::value(word(*outcome)) : json::value());
        rows.push_back(json::object{{"promise", check.promise}, {"outcomes", std::move(outcomes)}});
    }
    return rows;
}

// -- numbers: each list has one value for each stretch, or null if nothing was measured

template <class Value>
json::array each_stretch(const RunRecord& record, Value value) {
    json::array list;
    list.reserve(record.series.size());
    for (const auto& stretch : record.series) list.push_back(value(stretch));
    return list;
}

bool any_number(const json::array& list) {
    return std::ranges::any_of(list, [](const json::value& value) {
        return !value.is_null() && value.to_number<double>() != 0;
    });
}

void add_list(json::object& lists, const std::string& name, json::array list) {
    if (any_number(list)) lists[name] = std::move(list);
}

json::object lists_data(const RunRecord& record) {
    json::object lists;
    for (std::size_t at = 0; at < counts_size; ++at) {
        const auto count = static_cast<Count>(at);
        add_list(lists, std::string(info(count).name),
                 each_stretch(record, [&](const Stretch& stretch) {
                     return static_cast<double>(stretch.measured[count]) / stretch.length;
                 }));
    }
    for (std::size_t at = 0; at < gauges_size; ++at) {
        const auto gauge = static_cast<Gauge>(at);
        add_list(lists, std::string(info(gauge).name),
                 each_stretch(record, [&](const Stretch& stretch) {
                     const double level = stretch.measured[gauge];
                     return level < 0 ? json::value() : json::value(level);
                 }));
    }
    constexpr std::array<std::pair<const char*, double>, 3> percentiles{
        {{"p50", 0.5}, {"p99", 0.99}, {"max", 1.0}}};
    for (std::size_t at = 0; at < timings_size; ++at) {
        const auto timing = static_cast<Timing>(at);
        for (const auto& [name, fraction] : percentiles)
            add_list(lists, fmt::format("{}_{}", info(timing).name, name),
                     each_stretch(record, [&, fraction = fraction](const Stretch& stretch) {
                         const auto& times = stretch.measured[timing];
                         return times.empty() ? json::value()
                                              : json::value(seconds(times.percentile(fraction)));
                     }));
    }
    return lists;
}

/// Points (seconds, share of all): six for each power of ten, which is as fine as a plot needs.
json::array histogram_data(const Histogram& times) {
    constexpr double steps = 6;
    std::map<int, std::uint64_t> coarse;
    for (const auto& [bucket, count] : times.buckets()) {
        const double value = std::max(1e-9, seconds(Histogram::upper_edge(bucket)));
        coarse[static_cast<int>(std::ceil(std::log10(value) * steps))] += count;
    }
    json::array points;
    for (const auto& [step, count] : coarse)
        points.push_back(
            json::array{std::pow(10.0, step / steps),
                        static_cast<double>(count) / static_cast<double>(times.count())});
    return points;
}

/// Points (seconds, closes), as fine as the histogram is.
json::array expiry_data(const Histogram& times) {
    json::array points;
    for (const auto& [bucket, count] : times.buckets())
        points.push_back(json::array{seconds(Histogram::upper_edge(bucket)), count});
    return points;
}

json::object histograms_data(const Measurements& totals) {
    json::object histograms;
    for (const auto timing : {Timing::message, Timing::acknowledgement, Timing::ping, Timing::login,
                              Timing::back_again})
        if (const auto& times = totals[timing]; !times.empty())
            histograms[info(timing).name] = histogram_data(times);
    for (const auto timing : {Timing::expiry, Timing::detection})
        if (const auto& times = totals[timing]; !times.empty())
            histograms[info(timing).name] = expiry_data(times);
    return histograms;
}

json::object run_data(const RunRecord& record, const std::string& name) {
    return {{"name", name},
            {"verdict", record.verdict},
            {"outcome", word(overall(record.checks))},
            {"interrupted", record.interrupted},
            {"about", about_run(record)},
            {"command", record.command},
            {"scenario", record.scenario},
            {"machine", about_machine(record.machine)},
            {"server", about_server(record.server)},
            {"version", record.version},
            {"checks", checks_data(record.checks)},
            {"percentiles", percentiles_data(record.totals)},
            {"hostile_effect", effect_data(record)},
            {"examples", json::value_from(record.examples)},
            {"notes", json::value_from(record.notes)},
            {"marks", marks_data(record.marks)},
            {"seconds", each_stretch(record, [](const Stretch& s) { return s.middle(); })},
            {"lists", lists_data(record)},
            {"histograms", histograms_data(record.totals)}};
}

}  // namespace

json::object page_data(std::span<const RunRecord> records) {
    const auto names = names_of(records);
    json::array runs;
    for (std::size_t at = 0; at < records.size(); ++at)
        runs.push_back(run_data(records[at], names[at]));
    return {{"runs", std::move(runs)},
            {"figures", figures_data(records)},
            {"compared_checks", compared_checks_data(records)}};
}

}  // namespace pulsegate::load
