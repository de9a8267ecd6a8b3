#include "loadgen/kill/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>

#include "loadgen/units.h"

namespace pulsegate::kill {

namespace json = boost::json;
using load::show_count;

namespace {

bool is_refused(const Counts& counts) { return counts.refused > 0 && counts.acknowledged == 0; }

std::uint64_t acknowledged(const Book& book) {
    std::uint64_t sum = 0;
    for (const Kind kind : all_kinds) sum += book.counts(kind).acknowledged;
    return sum;
}

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
    "{:<9}{:>10}{:>14}{:>10}{:>7}{:>10}{:>9}{:>14}{:>7}{:>6}{:>10}{:>10}\n";

/// A dash stands where the kind of traffic makes no such promise.
std::string row(Kind kind, const Counts& counts) {
    const auto cell = [](std::uint64_t count, bool promised = true) {
        return promised ? show_count(count) : std::string("-");
    };
    const bool values = kind == Kind::retained;
    const bool wills = kind == Kind::will;
    return fmt::format(fmt::runtime(columns), name(kind), cell(counts.sent),
                       cell(counts.acknowledged), cell(counts.received), cell(counts.lost),
                       cell(counts.repeated, !values), cell(counts.wrongly_repeated, !values),
                       cell(counts.out_of_order, is_ordered(kind)),
                       cell(counts.early, kind == Kind::delayed || wills),
                       cell(counts.late, kind == Kind::delayed),
                       cell(counts.outdated, kind == Kind::mixed), cell(counts.unwanted, wills));
}

std::string presence_row(const PresenceBook& presence) {
    return fmt::format("\n{:<9}{:>10}{:>14}{:>10}{:>18}\n{:<9}{:>10}{:>14}{:>10}{:>18}\n", "",
                       "told", "version fell", "untrue", "offline in time", "presence",
                       show_count(presence.told()), show_count(presence.fallen()),
                       show_count(presence.untrue()), show_count(presence.offline_in_time()));
}

std::string notes(const Options& options, const Results& results) {
    std::string text;
    const auto note = [&text](std::string_view what, std::string_view how) {
        text += fmt::format("{:<27}{}\n", what, how);
    };
    const auto edges = options.edges ? fmt::format(", {} of edges", results.edge_kills) : "";
    note("kills", show_count(results.kills.size()) + edges);
    if (options.stops > 0) note("stops", show_count(results.stops.size()));
    if (!options.clock.empty())
        note("clock steps",
             fmt::format("{} forward, {} back", results.steps_forward, results.steps_back));
    if (!results.stops.empty())
        note("stopped within",
             fmt::format("{} (median), {} (greatest)", load::show(median(stop_times(results))),
                         load::show(greatest(stop_times(results)))));
    for (const auto& how : results.bad_stops) note("stop did not end in order", how);
    if (!results.starts.empty())
        note("port open again after",
             fmt::format("{} (median), {} (greatest)", load::show(median(results.starts)),
                         load::show(greatest(results.starts))));
    for (const auto& how : results.ends) note("broker ended by itself", how);
    const auto& delayed = results.book.counts(Kind::delayed);
    if (delayed.latest > Duration()) note("greatest lateness", load::show(delayed.latest));
    if (options.kinds.count(Kind::delayed) > 0 && !options.v5_0)
        note(name(Kind::delayed), "not sent: only MQTT 5.0 tells whether the broker knows them");
    for (const Kind kind : all_kinds) {
        const auto& counts = results.book.counts(kind);
        if (is_refused(counts))
            note(name(kind), "refused by the broker");
        else if (counts.refused > 0)
            note(name(kind), fmt::format("{} refused", show_count(counts.refused)));
        if (counts.unknown > 0)
            note(name(kind), fmt::format("{} unknown, because their publisher's session is gone",
                                         show_count(counts.unknown)));
    }
    if (results.book.sessions_lost() > 0)
        note("sessions lost", show_count(results.book.sessions_lost()));
    if (results.own_stalls > 0)
        note("kill itself stalled", fmt::format("{} times, {} (greatest)", results.own_stalls,
                                                load::show(results.longest_stall)));
    note("seed", std::to_string(options.seed));
    return text;
}

std::string verdict(const Results& results) {
    const Book& book = results.book;
    if (passed(results))
        return "nothing that was acknowledged is lost, wrongly repeated, out of order or early";
    if (acknowledged(book) == 0) return "FAILED: the broker acknowledged nothing";
    Counts all;
    for (const Kind kind : all_kinds) {
        const Counts& each = book.counts(kind);
        all.lost += each.lost;
        all.wrongly_repeated += each.wrongly_repeated;
        all.out_of_order += each.out_of_order;
        all.early += each.early;
        all.outdated += each.outdated;
        all.unwanted += each.unwanted;
    }
    std::string text;
    const auto add = [&text](std::uint64_t count, std::string_view what) {
        if (count > 0)
            text += fmt::format("{} {} {}", text.empty() ? "" : ",", show_count(count), what);
    };
    add(all.lost, "lost");
    add(all.wrongly_repeated, "wrongly repeated");
    add(all.out_of_order, "out of order");
    add(all.early, "early");
    add(all.outdated, "outdated");
    add(all.unwanted, "unwanted");
    add(results.presence.fallen(), "versions fell");
    add(results.presence.untrue(), "untrue states");
    add(results.presence.offline_in_time(), "offline in time");
    add(book.sessions_lost(), "sessions lost");
    add(book.other_faults(), "other faults");
    add(results.ends.size(), "ends by itself");
    add(results.bad_stops.size(), "stops not in order");
    return "FAILED:" + text;
}

std::vector<Fault> faults(const Results& results) {
    auto all = results.book.faults();
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

bool passed(const Results& results) {
    return results.book.kept() && results.presence.kept() && results.ends.empty() &&
           results.bad_stops.empty() && acknowledged(results.book) > 0;
}

std::string table(const Options& options, const Results& results) {
    std::string text =
        fmt::format(fmt::runtime(columns), "", "sent", "acknowledged", "received", "lost",
                    "repeated", "wrongly", "out of order", "early", "late", "outdated", "unwanted");
    for (const Kind kind : all_kinds)
        if (options.kinds.count(kind) > 0) text += row(kind, results.book.counts(kind));
    if (options.presence) text += presence_row(results.presence);
    text += "\n" + notes(options, results);
    for (const auto& [what, at] : faults(results))
        text += fmt::format("fault at {:.3f} s: {}\n", load::seconds(at - results.began), what);
    return text + fmt::format("verdict: {}\n", verdict(results));
}

std::string as_json(const Options& options, const Results& results) {
    const auto since_begin = [&](Time time) { return load::seconds(time - results.began); };
    json::array kinds, kills, stops, examples;
    for (const Kind kind : all_kinds)
        if (options.kinds.count(kind) > 0)
            kinds.push_back(json_of(kind, results.book.counts(kind)));
    for (const Time kill : results.kills) kills.push_back(since_begin(kill));
    for (const auto& stop : results.stops) stops.push_back(since_begin(stop.at));
    for (const auto& [what, at] : faults(results))
        examples.push_back(json::object{{"at", since_begin(at)}, {"what", what}});
    return json::serialize(json::object{
               {"passed", passed(results)},
               {"verdict", verdict(results)},
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
               {"sessions_lost", results.book.sessions_lost()},
               {"other_faults", results.book.other_faults()},
               {"faults", std::move(examples)},
           }) +
           "\n";
}

}  // namespace pulsegate::kill
