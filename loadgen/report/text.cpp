#include "loadgen/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "loadgen/report/comparison.h"
#include "loadgen/report/figures.h"
#include "loadgen/report/hostile_effect.h"
#include "loadgen/report/judging.h"
#include "loadgen/report/labels.h"
#include "loadgen/report/table.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

using Outcome = CheckResult::Outcome;

/// Adds the rows with counts.
class CountRows {
public:
    CountRows(const RunRecord& record, TextTable& out)
        : record_(record),
          totals_(record.totals),
          stretches_(measured_stretches(record)),
          out_(out) {}

    void add() {
        connections();
        packets();
        messages();
        pings();
        out_.row("false offline", show_count(totals_[Count::false_offline]));
        comings_and_goings();
        presence();
        presence_by_http();
        hostile();
        server();
        generator();
    }

private:
    std::string count(Count count) const { return show_count(totals_[count]); }
    std::string rate(Count count) const { return show_rate(mean_rate(record_, count)); }

    void connections() {
        std::string text = fmt::format("{} of {}, {} failed", count(Count::entered),
                                       show_count(record_.clients), count(Count::connect_failed));
        if (totals_[Count::refused_busy] > 0)
            text += fmt::format(", {} refused as busy", count(Count::refused_busy));
        if (record_.sources > 0)
            text += fmt::format(", from {} address{}", record_.sources,
                                record_.sources == 1 ? "" : "es");
        out_.row("connections", text);
    }

    void packets() {
        const auto part = record_.measured();
        out_.row(
            "packets",
            fmt::format(
                "{} sent, {} received{}", rate(Count::packets_sent), rate(Count::packets_received),
                part.length() > 0 ? ", for " + show(from_seconds(part.length())) : std::string()));
    }

    void messages() {
        if (totals_[Count::messages_planned] + totals_[Count::messages_sent] == 0) return;
        out_.row("messages",
                 fmt::format("{}: {} sent, {} received, {} lost, {} repeated",
                             rate(Count::messages_sent), count(Count::messages_sent),
                             count(Count::messages_received), count(Count::messages_lost),
                             show_count(totals_[Count::messages_repeated] +
                                        totals_[Count::messages_repeated_qos2])));
        if (totals_[Count::messages_crossed] + totals_[Count::messages_lost_crossing] > 0)
            out_.row("between nodes",
                     fmt::format("{} received, {} lost", count(Count::messages_crossed),
                                 count(Count::messages_lost_crossing)));
    }

    void pings() {
        if (totals_[Count::pings_sent] == 0) return;
        out_.row("pings", fmt::format("{}: {} sent, {} answered, {} late", rate(Count::pings_sent),
                                      count(Count::pings_sent), count(Count::pings_answered),
                                      count(Count::pings_late)));
    }

    void comings_and_goings() {
        const auto text = Enumeration()
                              .add(totals_[Count::naps], "naps")
                              .add(totals_[Count::network_changes], "changes of network")
                              .add(totals_[Count::vanished], "vanished in the storm")
                              .add(totals_[Count::resumed], "sessions found again")
                              .add(totals_[Count::session_lost], "sessions lost")
                              .add(totals_[Count::token_expired], "closed with an expired token")
                              .text();
        if (!text.empty()) out_.row("came and went", text);
    }

    void presence() {
        if (totals_[Count::presence_changes] == 0) return;
        out_.row("presence",
                 fmt::format("{} changes seen, {} false offline, {} ghosts, {} missing",
                             count(Count::presence_changes), count(Count::presence_false_offline),
                             count(Count::presence_ghosts),
                             show_count(totals_[Count::presence_missing] +
                                        totals_[Count::presence_unseen])));
    }

    void presence_by_http() {
        if (totals_[Count::presence_asked] == 0) return;
        out_.row("presence, HTTP", fmt::format("{} users asked for, {} false offline, {} ghosts",
                                               count(Count::presence_asked),
                                               count(Count::presence_http_false_offline),
                                               count(Count::presence_http_ghosts)));
    }

    void hostile() {
        if (totals_[Count::hostile_started] == 0) return;
        out_.row("hostile",
                 fmt::format("{} connections, {} closed by the server",
                             count(Count::hostile_started), count(Count::hostile_closed)));
    }

    void server() {
        std::string text;
        const auto part = [&](Gauge gauge, auto show_level) {
            const auto level = level_of(stretches_, gauge);
            if (level) text += (text.empty() ? "" : ", ") + show_level(*level);
        };
        part(Gauge::server_cpu, [](const Level& level) {
            return fmt::format("{} (at most {:.0f} %)", show_cores(level.mean), level.most * 100);
        });
        part(Gauge::server_memory, [](const Level& level) { return show_bytes(level.most); });
        part(Gauge::server_loop_lag, [](const Level& level) {
            return "loop lag at most " + show(from_seconds(level.most));
        });
        if (!text.empty()) out_.row("server", text);
    }

    void generator() {
        const auto all = level_of(stretches_, Gauge::worker_cpu);
        const auto busiest = level_of(stretches_, Gauge::worker_cpu_max);
        if (!all || !busiest) return;
        std::string text = show_cores(all->mean);
        if (record_.workers > 1)
            text += fmt::format(", its busiest process {:.0f} %", busiest->mean * 100);
        if (totals_[Count::stalls] > 0)
            text += fmt::format(", stalls: {}, the longest {}", count(Count::stalls),
                                show(totals_[Timing::loop_lag].max()));
        out_.row("generator", text);
    }

    const RunRecord& record_;
    const Measurements& totals_;
    const std::vector<Stretch> stretches_;
    TextTable& out_;
};

void add_percentiles(TextTable& out, const Measurements& totals) {
    constexpr std::array order{Timing::message,    Timing::message_return, Timing::acknowledgement,
                               Timing::send_lag,   Timing::ping,           Timing::login,
                               Timing::back_again, Timing::last_attempt,   Timing::appearance,
                               Timing::detection};
    out.line();
    out.cells("", {"p50", "p99", "p99.9", "max"});
    for (const auto timing : order) {
        const auto& times = totals[timing];
        if (times.empty()) continue;
        out.cells(std::string(label_of(timing)),
                  {show(times.percentile(0.5)), show(times.percentile(0.99)),
                   show(times.percentile(0.999)), show(times.max())});
    }
    const auto& expiry = totals[Timing::expiry];
    if (expiry.empty()) return;
    out.line();
    out.cells("", {"min", "mean", "max", "closed"});
    out.cells("expiry", {show(expiry.min()), show(expiry.mean()), show(expiry.max()),
                         show_count(expiry.count())});
}

void add_hostile_effect(TextTable& out, const RunRecord& record) {
    const auto effect = hostile_effect(record);
    if (!effect) return;
    const auto cell = [](const std::optional<double>& value, Unit unit) {
        return value ? show_figure(*value, unit) : std::string("-");
    };
    out.line();
    out.cells("hostile clients", {"before", "with"});
    for (const auto& [label, unit, before, with] : effect_rows(*effect))
        out.cells(std::string(label), {cell(before, unit), cell(with, unit)});
}

std::string outcome_cell(std::optional<Outcome> outcome) {
    constexpr std::size_t width = std::string_view("inconclusive  ").size();
    return padded_right(outcome ? std::string(word_for_people(*outcome)) : "-", width);
}

std::string with_difference(const ComparedFigure& figure, std::size_t at) {
    if (!figure.values[at]) return "-";
    auto text = show_figure(*figure.values[at], figure.unit);
    if (const auto [least, most] = figure.spreads[at]; least < most)
        text += fmt::format(" [{}..{}]", show_figure(least, figure.unit),
                            show_figure(most, figure.unit));
    if (const auto difference = figure.difference(at))
        text += fmt::format(" ({:+.0f} %)", *difference * 100);
    return text;
}

}  // namespace

std::string text_report(const RunRecord& record) {
    TextTable out(16, 12);
    out.line();
    CountRows(record, out).add();
    add_percentiles(out, record.totals);
    add_hostile_effect(out, record);
    add_checks(out, record.checks);
    if (!record.examples.empty()) out.line("\nthe first failures:");
    for (const auto& example : record.examples) out.line("  " + example);
    for (const auto& note : record.notes) out.line("note: " + note);
    if (record.interrupted) out.line("note: interrupted");
    if (!record.verdict.empty()) out.line("\n" + record.verdict);
    return std::move(out).take();
}

// Checks that had nothing to judge come last, because the other checks matter more.
void add_checks(TextTable& out, const std::vector<CheckResult>& checks) {
    out.line();
    for (const bool skipped : {false, true})
        for (const auto& check : checks)
            if ((check.outcome == Outcome::skipped) == skipped)
                out.line(outcome_cell(check.outcome) + check.promise + ": " + check.detail);
}

std::string text_comparison(std::span<const RunRecord> records, std::size_t repeats) {
    const auto names = names_of(records);
    std::vector<std::string> columns;
    for (std::size_t at = 0; at < records.size(); at += repeats) columns.push_back(names[at]);
    std::size_t widest = repeats > 1 ? 36 : 22;
    for (const auto& name : columns) widest = std::max(widest, columns_of(name) + 2);
    TextTable out(22, widest);
    for (std::size_t at = 0; at < records.size(); ++at) out.row(names[at], about_run(records[at]));
    out.line();
    out.cells("", columns);
    for (const auto& figure : compared_figures(records, repeats)) {
        std::vector<std::string> cells;
        for (std::size_t at = 0; at < columns.size(); ++at)
            cells.push_back(with_difference(figure, at));
        out.cells(figure.label, cells);
    }
    const auto checks = compared_checks(records, repeats);
    if (!checks.empty()) out.line();
    for (const auto& [promise, outcomes] : checks) {
        std::string words;
        for (const auto& outcome : outcomes) words += outcome_cell(outcome);
        out.line(words + promise);
    }
    out.line();
    for (std::size_t at = 0; at < records.size(); ++at) out.row(names[at], records[at].verdict);
    return std::move(out).take();
}

}  // namespace pulsegate::load
