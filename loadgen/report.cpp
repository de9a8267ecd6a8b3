#include "loadgen/report.h"

#include <fmt/format.h>

#include <cmath>

#include "loadgen/json.h"

namespace pulsegate::load {

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

// fmt counts bytes where it should count columns, and "µ" has two.
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
    std::string farewells;
    for (const auto& [reason, count] : silence.farewells)
        farewells +=
            fmt::format("{}{}: {}", farewells.empty() ? "" : ", ", reason, show_count(count));
    if (!farewells.empty()) out.row("server said", "    " + farewells);
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
            fmt::format("the server's keepalive of {} s ruled", results.server_keepalive));
    if (results.silence.unclear > 0)
        notes.push_back(
            fmt::format("{} expiries fell into a stall of the generator and prove nothing",
                        show_count(results.silence.unclear)));
    if (results.interrupted) notes.push_back("interrupted");
    return notes;
}

void add_percentiles(JsonWriter& out, const char* name, const Histogram& times) {
    out.begin(name)
        .add("count", times.count())
        .add("min", seconds(times.min()))
        .add("mean", seconds(times.mean()))
        .add("p50", seconds(times.percentile(0.5)))
        .add("p90", seconds(times.percentile(0.9)))
        .add("p99", seconds(times.percentile(0.99)))
        .add("p99_9", seconds(times.percentile(0.999)))
        .add("max", seconds(times.max()))
        .end();
}

void add_settings(JsonWriter& out, const Plan& plan) {
    const auto& options = plan.options;
    out.begin("settings")
        .add("connect", url(options.connect))
        .add("clients", plan.clients)
        .add("ramp", options.ramp)
        .add("keepalive", seconds(options.keepalive))
        .add("messages", plan.messages)
        .add("silent", options.silent)
        .add("duration", seconds(options.duration))
        .add("qos", static_cast<int>(options.qos))
        .add("mqtt_version", version_text(options.version))
        .add("size", options.size)
        .add("limit", seconds(plan.limit))
        .add("tick", seconds(server_tick))
        .add("tolerance", seconds(options.tolerance))
        .add("silent_after", seconds(options.silent_after))
        .add("silent_over", seconds(plan.silent_over))
        .add("drain", seconds(options.drain))
        .add("in_progress", plan.in_progress)
        .add("sources", plan.sources)
        .end();
}

void add_numbers(JsonWriter& out, const Results& results) {
    const auto& [connected, failed, took, login] = results.connections;
    out.begin("connections")
        .add("connected", connected)
        .add("failed", failed)
        .add("took", seconds(took))
        .add("rate", per_second(connected, took));
    add_percentiles(out, "login", login);
    out.end();

    const auto& traffic = results.traffic;
    out.begin("traffic")
        .add("ran", seconds(traffic.ran))
        .add("packets_sent", traffic.packets_sent)
        .add("packets_received", traffic.packets_received)
        .add("packets_sent_rate", per_second(traffic.packets_sent, traffic.ran))
        .add("packets_received_rate", per_second(traffic.packets_received, traffic.ran))
        .end();

    const auto& messages = results.messages;
    out.begin("messages")
        .add("planned", messages.planned)
        .add("sent", messages.sent)
        .add("received", messages.received)
        .add("rate", per_second(messages.sent, traffic.ran))
        .add("unsent", messages.unsent)
        .add("lost", messages.lost)
        .add("duplicated", messages.duplicated)
        .add("misdirected", messages.misdirected)
        .add("excused", messages.excused)
        .add("acknowledged", messages.acknowledged)
        .add("unacknowledged", messages.unacknowledged);
    add_percentiles(out, "latency", messages.latency);
    out.end();

    const auto& pings = results.pings;
    out.begin("pings")
        .add("sent", pings.sent)
        .add("answered", pings.answered)
        .add("overdue", pings.overdue);
    add_percentiles(out, "answer", pings.time);
    out.end();

    const auto& silence = results.silence;
    out.begin("silence")
        .add("silent", silence.silent)
        .add("in_time", silence.in_time)
        .add("early", silence.early)
        .add("late", silence.late)
        .add("still_open", silence.still_open)
        .add("unclear", silence.unclear)
        .add("unjudged", silence.unjudged);
    add_percentiles(out, "expiry", silence.expiry);
    out.begin("farewells");
    for (const auto& [reason, count] : silence.farewells) out.add(reason, count);
    out.end().end();

    out.add("false_offline", results.false_offline);
    out.add("server_keepalive", results.server_keepalive);
    out.begin("generator")
        .add("cpu", seconds(traffic.cpu))
        .add("cpu_share", share_of_core(traffic))
        .add("stalls", results.stalls)
        .add("longest_stall", seconds(results.longest_stall))
        .add("starved", results.starved);
    add_percentiles(out, "lag", messages.lag);
    out.end();
}

void add_texts(JsonWriter& out, const char* name, const std::vector<std::string>& texts) {
    out.begin_list(name);
    for (const auto& text : texts) out.add({}, text);
    out.end();
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
    for (const auto& note : plan.notes) text += "note: " + note + "\n";
    return text;
}

std::string table(const Plan& plan, const Results& results, const std::vector<Check>& checks) {
    Table out;
    out.line();
    add_counts(out, plan, results);
    add_times(out, results);

    out.line();
    for (const auto& check : checks)
        out.line(fmt::format("{}  {}: {}", word(check.outcome), check.promise, check.detail));
    if (!results.examples.empty()) out.line("\nthe first failures:");
    for (const auto& example : results.examples) out.line("  " + example);
    for (const auto& note : all_notes(results)) out.line("note: " + note);
    return std::move(out).take();
}

std::string json(const Plan& plan, const Results& results, const std::vector<Check>& checks) {
    JsonWriter out;
    out.begin().add("version", PULSEGATE_VERSION).add("passed", passed(checks));
    out.add("interrupted", results.interrupted);
    add_settings(out, plan);
    add_numbers(out, results);
    out.begin_list("checks");
    for (const auto& check : checks)
        out.begin()
            .add("name", check.name)
            .add("promise", check.promise)
            .add("outcome", word(check.outcome))
            .add("detail", check.detail)
            .end();
    out.end();
    add_texts(out, "examples", results.examples);
    add_texts(out, "notes", all_notes(results));
    out.end();
    return std::move(out).take();
}

}  // namespace pulsegate::load
