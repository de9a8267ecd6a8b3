#include "loadgen/kill/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>

#include "loadgen/report/checks.h"
#include "loadgen/report/table.h"
#include "loadgen/report/text.h"
#include "loadgen/units.h"

namespace pulsegate::kill {

namespace json = boost::json;
using load::show_count;

namespace {

bool is_refused(const Counts& counts) { return counts.refused > 0 && counts.acknowledged == 0; }

Duration median(std::vector<Duration> times) {
    if (times.empty()) return {};
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

std::vector<Duration> stop_times(const Results& results) {
    std::vector<Duration> times;
    for (const auto& stop : results.stops) times.push_back(stop.took);
    return times;
}

Duration greatest(const std::vector<Duration>& times) {
    return times.empty() ? Duration() : *std::max_element(times.begin(), times.end());
}

constexpr std::string_view columns =
    "{:<9}{:>10}{:>14}{:>10}{:>7}{:>10}{:>9}{:>14}{:>7}{:>6}{:>10}{:>10}";

/// A dash stands where the kind of traffic makes no such promise.
std::string row(Kind kind, const Counts& counts) {
    const auto cell = [](std::uint64_t count, bool promised = true) {
        return promised ? show_count(count) : std::string("-");
    };
    const bool values = kind == Kind::retained;
    const bool wills = kind == Kind::will;
    return fmt::format(columns, name(kind), cell(counts.sent), cell(counts.acknowledged),
                       cell(counts.received), cell(counts.lost), cell(counts.repeated, !values),
                       cell(counts.wrongly_repeated, !values),
                       cell(counts.out_of_order, is_ordered(kind)),
                       cell(counts.early, kind == Kind::delayed || wills),
                       cell(counts.late, kind == Kind::delayed),
                       cell(counts.outdated, kind == Kind::mixed), cell(counts.unwanted, wills));
}

void add_presence(load::TextTable& out, const PresenceChecker& presence) {
    constexpr std::string_view presence_columns = "{:<9}{:>10}{:>14}{:>10}{:>18}";
    out.line();
    out.line(
        fmt::format(presence_columns, "", "told", "version fell", "untrue", "offline in time"));
    out.line(fmt::format(presence_columns, "presence", show_count(presence.told()),
                         show_count(presence.fallen()), show_count(presence.untrue()),
                         show_count(presence.offline_in_time())));
}

std::string median_and_greatest(const std::vector<Duration>& times) {
    return fmt::format("{} (median), {} (greatest)", load::show(median(times)),
                       load::show(greatest(times)));
}

void add_events(load::TextTable& out, const Options& options, const Results& results) {
    out.row("kills", show_count(results.kills.size()) +
                         (options.edges ? fmt::format(", {} of edges", results.edge_kills) : ""));
    if (options.stops > 0) out.row("stops", show_count(results.stops.size()));
    if (!options.clock.empty())
        out.row("clock steps",
                fmt::format("{} forward, {} back", results.steps_forward, results.steps_back));
    if (!results.stops.empty()) out.row("stopped within", median_and_greatest(stop_times(results)));
    for (const auto& how : results.bad_stops) out.row("stop did not end in order", how);
    if (!results.starts.empty())
        out.row("port open again after", median_and_greatest(results.starts));
    for (const auto& how : results.ends) out.row("broker ended by itself", how);
}

/// What is to be known about the counts.
void add_notes(load::TextTable& out, const Options& options, const Results& results) {
    const auto& delayed = results.messages.counts(Kind::delayed);
    if (delayed.latest > Duration()) out.row("greatest lateness", load::show(delayed.latest));
    if (options.kinds.count(Kind::delayed) > 0 && !options.v5_0)
        out.row(std::string(name(Kind::delayed)),
                "not sent: only MQTT 5.0 tells whether the broker knows them");
    for (const Kind kind : all_kinds) {
        const std::string label(name(kind));
        const auto& counts = results.messages.counts(kind);
        if (is_refused(counts))
            out.row(label, "refused by the broker");
        else if (counts.refused > 0)
            out.row(label, show_count(counts.refused) + " refused");
        if (counts.unknown > 0)
            out.row(label, show_count(counts.unknown) +
                               " unknown, because their publisher's session is gone");
    }
    if (results.own_stalls > 0)
        out.row("kill itself stalled", fmt::format("{} times, {} (greatest)", results.own_stalls,
                                                   load::show(results.longest_stall)));
    out.row("seed", std::to_string(options.seed));
}

std::string verdict(const std::vector<load::CheckResult>& checks) {
    using Outcome = load::CheckResult::Outcome;
    if (load::overall(checks) == Outcome::passed)
        return "nothing that was acknowledged is lost, wrongly repeated, out of order or early";
    std::string failures;
    for (const auto& check : checks)
        if (check.outcome == Outcome::failed)
            failures += (failures.empty() ? "" : ", ") + check.detail;
    return "FAILED: " + failures;
}

std::vector<Fault> faults(const Results& results) {
    auto all = results.messages.faults();
    const auto& presence = results.presence.faults();
    all.insert(all.end(), presence.begin(), presence.end());
    std::stable_sort(all.begin(), all.end(),
                     [](const Fault& a, const Fault& b) { return a.at < b.at; });
    return all;
}

json::object json_of(Kind kind, const Counts& counts) {
    return {{"kind", word(kind)},
            {"sent", counts.sent},
            {"acknowledged", counts.acknowledged},
            {"received", counts.received},
            {"lost", counts.lost},
            {"repeated", counts.repeated},
            {"wrongly_repeated", counts.wrongly_repeated},
            {"out_of_order", counts.out_of_order},
            {"early", counts.early},
            {"late", counts.late},
            {"outdated", counts.outdated},
            {"unwanted", counts.unwanted},
            {"greatest_lateness", load::seconds(counts.latest)},
            {"refused", counts.refused},
            {"unknown", counts.unknown}};
}

}  // namespace

std::string text_report(const Options& options, const Results& results,
                        const std::vector<load::CheckResult>& checks) {
    load::TextTable out(27, 0);
    out.line(fmt::format(columns, "", "sent", "acknowledged", "received", "lost", "repeated",
                         "wrongly", "out of order", "early", "late", "outdated", "unwanted"));
    for (const Kind kind : all_kinds)
        if (options.kinds.count(kind) > 0) out.line(row(kind, results.messages.counts(kind)));
    if (options.presence) add_presence(out, results.presence);
    out.line();
    add_events(out, options, results);
    add_notes(out, options, results);
    for (const auto& [what, at] : faults(results))
        out.line(fmt::format("fault at {:.3f} s: {}", load::seconds(at - results.began), what));
    load::add_checks(out, checks);
    out.line(fmt::format("\nverdict: {}", verdict(checks)));
    return std::move(out).take();
}

std::string as_json(const Options& options, const Results& results,
                    const std::vector<load::CheckResult>& checks) {
    const auto since_begin = [&](Time time) { return load::seconds(time - results.began); };
    json::array kinds, kills, stops, examples, promises;
    for (const Kind kind : all_kinds)
        if (options.kinds.count(kind) > 0)
            kinds.push_back(json_of(kind, results.messages.counts(kind)));
    for (const Time kill : results.kills) kills.push_back(since_begin(kill));
    for (const auto& stop : results.stops) stops.push_back(since_begin(stop.at));
    for (const auto& check : checks) promises.push_back(to_json(check));
    for (const auto& [what, at] : faults(results))
        examples.push_back(json::object{{"at", since_begin(at)}, {"what", what}});
    return json::serialize(json::object{
               {"passed", load::overall(checks) == load::CheckResult::Outcome::passed},
               {"verdict", verdict(checks)},
               {"checks", std::move(promises)},
               {"seed", options.seed},
               {"command", json::value_from(results.command)},
               {"traffic", std::move(kinds)},
               {"presence", json::object{{"told", results.presence.told()},
                                         {"fallen", results.presence.fallen()},
                                         {"untrue", results.presence.untrue()},
                                         {"offline_in_time", results.presence.offline_in_time()}}},
               {"kills", std::move(kills)},
               {"edge_kills", results.edge_kills},
               {"own_stalls", results.own_stalls},
               {"longest_own_stall", load::seconds(results.longest_stall)},
               {"stops", std::move(stops)},
               {"bad_stops", json::value_from(results.bad_stops)},
               {"steps_forward", results.steps_forward},
               {"steps_back", results.steps_back},
               {"open_again_median", load::seconds(median(results.starts))},
               {"open_again_greatest", load::seconds(greatest(results.starts))},
               {"ended_by_itself", json::value_from(results.ends)},
               {"sessions_lost", results.messages.sessions_lost()},
               {"other_faults", results.messages.other_faults()},
               {"faults", std::move(examples)},
           }) +
           "\n";
}

}  // namespace pulsegate::kill
