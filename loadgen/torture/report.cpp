#include "loadgen/torture/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>

#include "loadgen/units.h"

namespace pulsegate::torture {

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

Duration greatest(const std::vector<Duration>& times) {
    return times.empty() ? Duration() : *std::max_element(times.begin(), times.end());
}

/// A dash where the kind of traffic promises nothing of the sort.
std::string row(Kind kind, const Counts& counts) {
    const auto cell = [](std::uint64_t count, bool promised = true) {
        return promised ? show_count(count) : std::string("-");
    };
    const bool values = kind == Kind::retained;
    const bool ordered = kind == Kind::qos_1 || kind == Kind::qos_2;
    const bool timed = kind == Kind::delayed;
    return fmt::format("{:<9}{:>10}{:>14}{:>10}{:>20}{:>10}{:>14}{:>7}{:>6}\n", name(kind),
                       cell(counts.sent), cell(counts.acknowledged), cell(counts.received),
                       cell(counts.lost), cell(counts.repeated, !values),
                       cell(counts.out_of_order, ordered), cell(counts.early, timed),
                       cell(counts.late, timed));
}

std::string notes(const Options& options, const Results& results) {
    std::string text;
    const auto note = [&text](std::string_view what, std::string_view how) {
        text += fmt::format("{:<27}{}\n", what, how);
    };
    note("kills", show_count(results.kills.size()));
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
    note("seed", std::to_string(options.seed));
    return text;
}

std::string verdict(const Results& results) {
    const Book& book = results.book;
    if (passed(results))
        return "nothing that was acknowledged is lost, repeated at QoS 2, out of order or early";
    if (acknowledged(book) == 0) return "FAILED: the broker acknowledged nothing";
    Counts all;
    for (const Kind kind : all_kinds) {
        all.lost += book.counts(kind).lost;
        all.out_of_order += book.counts(kind).out_of_order;
        all.early += book.counts(kind).early;
    }
    std::string text;
    const auto add = [&text](std::uint64_t count, std::string_view what) {
        if (count > 0)
            text += fmt::format("{} {} {}", text.empty() ? "" : ",", show_count(count), what);
    };
    add(all.lost, "lost");
    add(book.counts(Kind::qos_2).repeated, "repeated at QoS 2");
    add(all.out_of_order, "out of order");
    add(all.early, "early");
    add(book.sessions_lost(), "sessions lost");
    add(book.other_faults(), "other faults");
    add(results.ends.size(), "ends by itself");
    return "FAILED:" + text;
}

json::object json_of(Kind kind, const Counts& counts) {
    return {{"kind", word(kind)},
            {"sent", counts.sent},
            {"acknowledged", counts.acknowledged},
            {"received", counts.received},
            {"lost", counts.lost},
            {"repeated", counts.repeated},
            {"out_of_order", counts.out_of_order},
            {"early", counts.early},
            {"late", counts.late},
            {"greatest_lateness", load::seconds(counts.latest)},
            {"refused", counts.refused},
            {"unknown", counts.unknown}};
}

}  // namespace

bool passed(const Results& results) {
    return results.book.kept() && results.ends.empty() && acknowledged(results.book) > 0;
}

std::string table(const Options& options, const Results& results) {
    std::string text = fmt::format("{:<9}{:>10}{:>14}{:>10}{:>20}{:>10}{:>14}{:>7}{:>6}\n", "",
                                   "sent", "acknowledged", "received", "acknowledged, lost",
                                   "repeated", "out of order", "early", "late");
    for (const Kind kind : all_kinds)
        if (options.kinds.count(kind) > 0) text += row(kind, results.book.counts(kind));
    text += "\n" + notes(options, results);
    for (const auto& [what, at] : results.book.faults())
        text += fmt::format("fault at {:.3f} s: {}\n", load::seconds(at - results.began), what);
    return text + fmt::format("verdict: {}\n", verdict(results));
}

std::string as_json(const Options& options, const Results& results) {
    const auto since_begin = [&](Time time) { return load::seconds(time - results.began); };
    json::array kinds, kills, faults;
    for (const Kind kind : all_kinds)
        if (options.kinds.count(kind) > 0)
            kinds.push_back(json_of(kind, results.book.counts(kind)));
    for (const Time kill : results.kills) kills.push_back(since_begin(kill));
    for (const auto& [what, at] : results.book.faults())
        faults.push_back(json::object{{"at", since_begin(at)}, {"what", what}});
    return json::serialize(json::object{
               {"passed", passed(results)},
               {"verdict", verdict(results)},
               {"seed", options.seed},
               {"command", json::value_from(options.command)},
               {"traffic", std::move(kinds)},
               {"kills", std::move(kills)},
               {"open_again_median", load::seconds(median(results.starts))},
               {"open_again_greatest", load::seconds(greatest(results.starts))},
               {"ended_by_itself", json::value_from(results.ends)},
               {"sessions_lost", results.book.sessions_lost()},
               {"other_faults", results.book.other_faults()},
               {"faults", std::move(faults)},
           }) +
           "\n";
}

}  // namespace pulsegate::torture
