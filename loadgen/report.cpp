#include "loadgen/report.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <cmath>
#include <tuple>

namespace pulsegate::load {

namespace json = boost::json;

namespace {

const char* version_text(Version version) { return version == Version::v5_0 ? "5" : "3.1.1"; }

std::string url(const Address& address) {
    const bool v6 = address.host.find(':') != std::string::npos;
    return fmt::format("mqtt://{}{}{}:{}", v6 ? "[" : "", address.host, v6 ? "]" : "",
                       address.port);
}

double per_second(std::uint64_t count, Duration time) {
    return time > Duration::zero() ? static_cast<double>(count) / seconds(time) : 0;
}

double share_of_core(const Results::Traffic& traffic) {
    return traffic.ran > Duration::zero() ? seconds(traffic.cpu) / seconds(traffic.ran) : 0;
}

// fmt counts bytes, not columns, and "µ" has two bytes.
std::string right(const std::string& text, std::size_t width) {
    std::size_t columns = 0;
    for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    return std::string(columns < width ? width - columns : 0, ' ') + text;
}

class Table {
public:
    void row(const char* label, const std::string& text) {
        text_ += fmt::format("{:<16}{}\n", label, text);
    }

    void columns(const char* label, const std::vector<std::string>& cells) {
        std::string text;
        for (const auto& cell : cells) text += right(cell, 12);
        row(label, text);
    }

    void percentiles(const char* label, const Histogram& times) {
        if (times.empty()) return;
        columns(label, {show(times.percentile(0.5)), show(times.percentile(0.99)),
                        show(times.percentile(0.999)), show(times.max())});
    }

    void line(const std::string& text = "") { text_ += text + "\n"; }

    std::string take() && { return std::move(text_); }

private:
    std::string text_;
};

void add_counts(Table& out, const Plan& plan, const Results& results) {
    const auto& [connected, failed, took, time] = results.connections;
    out.row("connections", fmt::format("{} of {} in {} ({}), {} failed, from {} address{}",
                                       show_count(connected), show_count(plan.clients), show(took),
                                       show_rate(per_second(connected, took)), show_count(failed),
                                       plan.sources, plan.sources == 1 ? "" : "es"));

    const auto& traffic = results.traffic;
    const auto rate = [&](std::uint64_t count) {
        return show_rate(per_second(count, traffic.ran));
    };
    out.row("packets", fmt::format("{} sent, {} received, for {}", rate(traffic.packets_sent),
                                   rate(traffic.packets_received), show(traffic.ran)));

    const auto& messages = results.messages;
    if (messages.planned > 0)
        out.row("messages",
                fmt::format("{}: {} sent, {} received, {} lost, {} duplicated", rate(messages.sent),
                            show_count(messages.sent), show_count(messages.received),
                            show_count(messages.lost), show_count(messages.duplicated)));
    const auto& pings = results.pings;
    out.row("pings", fmt::format("{}: {} sent, {} answered, {} not within 10 s", rate(pings.sent),
                                 show_count(pings.sent), show_count(pings.answered),
                                 show_count(pings.overdue)));
    out.row("false offline", show_count(results.false_offline));
    out.row("generator",
            fmt::format("{:.1f} % of a core{}", share_of_core(traffic) * 100,
                        results.stalls == 0 ? ""
                                            : fmt::format(", stalls: {}, the longest {}",
                                                          show_count(results.stalls),
                                                          show(results.longest_stall))));
}

void add_times(Table& out, const Results& results) {
    out.line();
    out.columns("", {"p50", "p99", "p99.9", "max"});
    out.percentiles("message latency", results.messages.latency);
    out.percentiles("generator lag", results.messages.lag);
    out.percentiles("ping answer", results.pings.time);
    out.percentiles("login", results.connections.time);

    const auto& silence = results.silence;
    if (silence.expiry.empty()) return;
    out.line();
    out.columns("", {"min", "mean", "max", "closed"});
    out.columns("expiry", {show(silence.expiry.min()), show(silence.expiry.mean()),
                           show(silence.expiry.max()), show_count(silence.expiry.count())});
    std::string disconnect_reasons;
    for (const auto& [reason, count] : silence.disconnect_reasons)
        disconnect_reasons += fmt::format("{}{}: {}", disconnect_reasons.empty() ? "" : ", ",
                                          reason, show_count(count));
    if (!disconnect_reasons.empty()) out.row("DISCONNECTs", "    " + disconnect_reasons);
}

void add_storm(Table& out, const Results& results) {
    const auto& storm = results.storm;
    if (storm.vanished == 0) return;
    out.line();
    out.row("storm",
            fmt::format("{} vanished in {}, all had set out again after {}, {} back in {}",
                        show_count(storm.vanished), show(storm.vanishing), show(storm.setting_out),
                        show_count(storm.back), show(storm.took)));
    out.row("", fmt::format(
                    "{} attempts: {} refused as busy, {} lost or not answered; {} clients had to "
                    "try again",
                    show_count(storm.attempts), show_count(storm.busy), show_count(storm.dropped),
                    show_count(storm.retried)));
    if (storm.behind > Duration::zero())
        out.row("", fmt::format("the generator was up to {} behind with it", show(storm.behind)));
    out.line();
    out.columns("", {"p50", "p99", "p99.9", "max"});
    out.percentiles("back again", storm.return_time);
    out.percentiles("last attempt", storm.attempt_time);

    const Results::Period& quiet = results.quiet;
    const Results::Period& in_storm = results.in_storm;
    const auto compare = [&](const char* quietly, const char* in_the_storm,
                             Histogram Results::Period::*times) {
        out.percentiles(quietly, quiet.*times);
        out.percentiles(in_the_storm, in_storm.*times);
    };
    compare("messages, quiet", "messages, storm", &Results::Period::latency);
    compare("own lag, quiet", "own lag, storm", &Results::Period::lag);
    compare("pings, quiet", "pings, storm", &Results::Period::ping);
    const auto ratio = [&](Histogram Results::Period::*times) {
        const auto value = p99_ratio(quiet.*times, in_storm.*times);
        return value ? fmt::format("{:.1f}", *value) : std::string("unknown");
    };
    out.row("p99, storm/quiet",
            fmt::format("    messages {}, own lag {}, pings {}", ratio(&Results::Period::latency),
                        ratio(&Results::Period::lag), ratio(&Results::Period::ping)));
}

const char* word(Check::Outcome outcome) {
    switch (outcome) {
        case Check::Outcome::passed: return "pass";
        case Check::Outcome::failed: return "FAIL";
        case Check::Outcome::skipped: break;
    }
    return "none";
}

std::vector<std::string> all_notes(const Results& results) {
    auto notes = results.notes;
    if (results.server_keepalive != 0)
        notes.push_back(
            fmt::format("the server's keepalive of {} s applied", results.server_keepalive));
    if (results.silence.unclear > 0)
        notes.push_back(
            fmt::format("{} expiries fell into a stall of the generator and are not judged",
                        show_count(results.silence.unclear)));
    if (results.interrupted) notes.push_back("interrupted");
    return notes;
}

json::object times_of(const Histogram& times) {
    return {{"count", times.count()},
            {"min", seconds(times.min())},
            {"mean", seconds(times.mean())},
            {"p50", seconds(times.percentile(0.5))},
            {"p90", seconds(times.percentile(0.9))},
            {"p99", seconds(times.percentile(0.99))},
            {"p99_9", seconds(times.percentile(0.999))},
            {"max", seconds(times.max())}};
}

json::object settings_of(const Plan& plan) {
    const auto& options = plan.options;
    return {{"connect", url(options.connect)},
            {"clients", plan.clients},
            {"ramp", options.ramp},
            {"keepalive", seconds(options.keepalive)},
            {"messages", plan.messages},
            {"silent", options.silent},
            {"duration", seconds(options.duration)},
            {"qos", static_cast<int>(options.qos)},
            {"mqtt_version", version_text(options.version)},
            {"size", options.size},
            {"limit", seconds(plan.limit)},
            {"tick", seconds(server_tick)},
            {"tolerance", seconds(options.tolerance)},
            {"silent_after", seconds(options.silent_after)},
            {"silent_over", seconds(plan.silent_over)},
            {"drain", seconds(options.drain)},
            {"storm", plan.storm},
            {"storm_after", seconds(options.storm_after)},
            {"storm_within", seconds(options.storm_within)},
            {"storm_factor", options.storm_factor},
            {"in_progress", plan.in_progress},
            {"sources", plan.sources}};
}

json::object connections_of(const Results::Connections& seen) {
    return {{"connected", seen.connected},
            {"failed", seen.failed},
            {"took", seconds(seen.took)},
            {"rate", per_second(seen.connected, seen.took)},
            {"login", times_of(seen.time)}};
}

json::object traffic_of(const Results::Traffic& seen) {
    return {{"ran", seconds(seen.ran)},
            {"packets_sent", seen.packets_sent},
            {"packets_received", seen.packets_received},
            {"packets_sent_rate", per_second(seen.packets_sent, seen.ran)},
            {"packets_received_rate", per_second(seen.packets_received, seen.ran)}};
}

json::object messages_of(const Results::Messages& seen, Duration ran) {
    return {{"planned", seen.planned},
            {"sent", seen.sent},
            {"received", seen.received},
            {"rate", per_second(seen.sent, ran)},
            {"unsent", seen.unsent},
            {"lost", seen.lost},
            {"duplicated", seen.duplicated},
            {"misdirected", seen.misdirected},
            {"excused", seen.excused},
            {"acknowledged", seen.acknowledged},
            {"unacknowledged", seen.unacknowledged},
            {"latency", times_of(seen.latency)}};
}

json::object pings_of(const Results::Pings& seen) {
    return {{"sent", seen.sent},
            {"answered", seen.answered},
            {"overdue", seen.overdue},
            {"answer", times_of(seen.time)}};
}

json::object silence_of(const Results::Silence& seen) {
    return {{"silent", seen.silent},
            {"in_time", seen.in_time},
            {"early", seen.early},
            {"late", seen.late},
            {"still_open", seen.still_open},
            {"unclear", seen.unclear},
            {"unjudged", seen.unjudged},
            {"expiry", times_of(seen.expiry)},
            {"disconnect_reasons", json::value_from(seen.disconnect_reasons)}};
}

json::object storm_of(const Results& results) {
    const auto& seen = results.storm;
    const auto compare = [&](Histogram Results::Period::*times) {
        const auto& [quiet, in_storm] = std::tie(results.quiet, results.in_storm);
        const auto ratio = p99_ratio(quiet.*times, in_storm.*times);
        return json::object{{"quiet", times_of(quiet.*times)},
                            {"storm", times_of(in_storm.*times)},
                            {"p99_ratio", ratio ? json::value(*ratio) : json::value()}};
    };
    return {{"vanished", seen.vanished},
            {"back", seen.back},
            {"refused", seen.refused},
            {"retried", seen.retried},
            {"attempts", seen.attempts},
            {"busy", seen.busy},
            {"dropped", seen.dropped},
            {"vanishing", seconds(seen.vanishing)},
            {"setting_out", seconds(seen.setting_out)},
            {"took", seconds(seen.took)},
            {"behind", seconds(seen.behind)},
            {"return", times_of(seen.return_time)},
            {"last_attempt", times_of(seen.attempt_time)},
            {"established", json::object{{"latency", compare(&Results::Period::latency)},
                                         {"lag", compare(&Results::Period::lag)},
                                         {"ping", compare(&Results::Period::ping)}}}};
}

json::object generator_of(const Results& results) {
    return {{"cpu", seconds(results.traffic.cpu)},
            {"cpu_share", share_of_core(results.traffic)},
            {"stalls", results.stalls},
            {"longest_stall", seconds(results.longest_stall)},
            {"starved", results.starved},
            {"lag", times_of(results.messages.lag)}};
}

json::array checks_of(const std::vector<Check>& checks) {
    json::array list;
    for (const auto& check : checks)
        list.push_back(json::object{{"name", check.name},
                                    {"promise", check.promise},
                                    {"outcome", word(check.outcome)},
                                    {"detail", check.detail}});
    return list;
}

}  // namespace

std::string announce(const Plan& plan) {
    const auto& options = plan.options;
    std::string text = fmt::format(
        "{}, MQTT {}: {} clients at {}, keepalive {}, limit {}, {} silent,\n"
        "{} messages of {} bytes a second at QoS {}, for {}\n",
        url(options.connect), version_text(options.version), show_count(plan.clients),
        show_rate(options.ramp), show(options.keepalive), show(plan.limit),
        show_percent(options.silent), show_count(std::llround(plan.messages)), options.size,
        static_cast<int>(options.qos), show(options.duration));
    if (plan.storm > 0)
        text += fmt::format("after {}, {} vanish and come back at once\n",
                            show(options.storm_after), show_count(plan.storm));
    for (const auto& note : plan.notes) text += "note: " + note + "\n";
    return text;
}

std::string table(const Plan& plan, const Results& results, const std::vector<Check>& checks) {
    Table out;
    out.line();
    add_counts(out, plan, results);
    add_times(out, results);
    add_storm(out, results);

    out.line();
    for (const auto& check : checks)
        out.line(fmt::format("{}  {}: {}", word(check.outcome), check.promise, check.detail));
    if (!results.examples.empty()) out.line("\nthe first failures:");
    for (const auto& example : results.examples) out.line("  " + example);
    for (const auto& note : all_notes(results)) out.line("note: " + note);
    return std::move(out).take();
}

std::string as_json(const Plan& plan, const Results& results, const std::vector<Check>& checks) {
    return json::serialize(json::object{
               {"version", PULSEGATE_VERSION},
               {"passed", passed(checks)},
               {"interrupted", results.interrupted},
               {"settings", settings_of(plan)},
               {"connections", connections_of(results.connections)},
               {"traffic", traffic_of(results.traffic)},
               {"messages", messages_of(results.messages, results.traffic.ran)},
               {"pings", pings_of(results.pings)},
               {"silence", silence_of(results.silence)},
               {"storm", plan.storm > 0 ? json::value(storm_of(results)) : json::value()},
               {"false_offline", results.false_offline},
               {"server_keepalive", results.server_keepalive},
               {"generator", generator_of(results)},
               {"checks", checks_of(checks)},
               {"examples", json::value_from(results.examples)},
               {"notes", json::value_from(all_notes(results))},
           }) +
           "\n";
}

}  // namespace pulsegate::load
