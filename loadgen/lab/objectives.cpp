#include "loadgen/lab/objectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// The tolerated share of planned messages that could not be sent: sometimes a sender has just lost
/// its connection.
constexpr double most_unsent = 0.001;

void set_objective(Objectives& objectives, std::string_view key, std::string_view value) {
    if (key == "p99")
        objectives.p99 = parse_duration(value);
    else if (key == "false-offline")
        objectives.false_offline = parse_count(value);
    else if (key == "losses")
        objectives.losses = parse_count(value);
    else if (key == "server-cpu")
        objectives.server_cpu = parse_percent(value);
    else
        throw std::invalid_argument(
            "write objectives such as "
            "p99=100ms,false-offline=0,losses=0,server-cpu=90%");
}

/// Visits what was measured from `go` to `drain`, second by second.
template <class Visit>
void each_measured(const RunRecord& record, Visit visit) {
    const auto part = record.measured();
    for (const Stretch& stretch : record.series)
        if (stretch.second >= part.from && stretch.second < part.to) visit(stretch);
}

/// The first second in which the measurements satisfy `is`; otherwise the end of the measured part.
template <class Is>
double first_second(const RunRecord& record, Is is) {
    double first = record.measured().to;
    each_measured(record, [&](const Stretch& stretch) {
        if (is(stretch.measured)) first = std::min<double>(first, stretch.second);
    });
    return first;
}

double busiest_server(const RunRecord& record) {
    double most = -1;
    each_measured(record, [&](const Stretch& stretch) {
        most = std::max(most, stretch.measured[Gauge::server_cpu]);
    });
    return most;
}

class Misses {
public:
    Misses(const Objectives& objectives, const Scenario& scenario, const RunRecord& record)
        : objectives_(objectives), scenario_(scenario), record_(record) {}

    std::vector<Miss> all() {
        arrivals();
        cpu();
        latency();
        false_offline();
        protocol();
        losses();
        unsent();
        std::ranges::stable_sort(missed_, {}, &Miss::second);
        return std::move(missed_);
    }

private:
    void arrivals() {
        const auto entered = record_.totals[Count::entered];
        const auto clients = scenario_.due_by(from_seconds(record_.measured().to));
        if (entered >= clients) return;
        missed_.push_back(
            {0, "logins",
             fmt::format("{} of {} clients came in", show_count(entered), show_count(clients))});
    }

    void cpu() {
        if (!record_.server.on_this_machine || record_.machine.cores == 0) return;
        const double most = objectives_.server_cpu * record_.machine.cores;
        if (busiest_server(record_) <= most) return;
        missed_.push_back(
            {first_second(record_, [&](const auto& now) { return now[Gauge::server_cpu] > most; }),
             "the server's CPU",
             fmt::format("{:.2f} of {} cores", busiest_server(record_), record_.machine.cores)});
    }

    void latency() {
        Histogram all;
        each_measured(record_,
                      [&](const Stretch& stretch) { all.add(stretch.measured[Timing::message]); });
        const auto p99 = all.percentile(0.99);
        if (p99 <= objectives_.p99) return;
        const auto too_late = [&](const Measurements& now) {
            return now[Timing::message].percentile(0.99) > objectives_.p99;
        };
        std::string detail = show(p99);
        if (const double cores = busiest_server(record_); cores >= 0)
            detail += fmt::format(", with {:.2f} cores of the server busy", cores);
        missed_.push_back({first_second(record_, too_late), "p99 of messages", detail});
    }

    void false_offline() {
        const auto count = record_.totals[Count::false_offline];
        if (count <= objectives_.false_offline) return;
        missed_.push_back(
            {first_second(record_,
                          [](const Measurements& now) { return now[Count::false_offline] > 0; }),
             "false offline", fmt::format("{} clients", show_count(count))});
    }

    void protocol() {
        const auto count = record_.totals[Count::violations];
        if (count == 0) return;
        missed_.push_back(
            {first_second(record_,
                          [](const Measurements& now) { return now[Count::violations] > 0; }),
             "the protocol", fmt::format("{} violations", show_count(count))});
    }

    void losses() {
        const auto& totals = record_.totals;
        const auto count = totals[Count::messages_lost] + totals[Count::publishes_refused] +
                           totals[Count::unacknowledged];
        if (count <= objectives_.losses) return;
        missed_.push_back({record_.measured().to, "losses",
                           fmt::format("{} messages lost, {} refused, {} never acknowledged",
                                       show_count(totals[Count::messages_lost]),
                                       show_count(totals[Count::publishes_refused]),
                                       show_count(totals[Count::unacknowledged]))});
    }

    // Otherwise a server that refuses its clients would seem to hold messages that were never sent.
    void unsent() {
        const auto count = record_.totals[Count::messages_unsent];
        const auto planned = record_.totals[Count::messages_planned];
        if (static_cast<double>(count) <= most_unsent * static_cast<double>(planned)) return;
        missed_.push_back(
            {first_second(record_,
                          [](const Measurements& now) { return now[Count::messages_unsent] > 0; }),
             "messages that could not be sent",
             fmt::format("{} of {}", show_count(count), show_count(planned))});
    }

    const Objectives& objectives_;
    const Scenario& scenario_;
    const RunRecord& record_;
    std::vector<Miss> missed_;
};

}  // namespace

Objectives parse_objectives(std::string_view text) {
    Objectives objectives;
    while (!text.empty()) {
        const auto part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        const auto equals = part.find('=');
        set_objective(objectives, part.substr(0, equals),
                      equals == std::string_view::npos ? "" : part.substr(equals + 1));
    }
    return objectives;
}

std::vector<Miss> misses(const Objectives& objectives, const Scenario& scenario,
                         const RunRecord& record) {
    return Misses(objectives, scenario, record).all();
}

}  // namespace pulsegate::load
