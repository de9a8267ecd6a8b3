#include "loadgen/report/plan_on_paper.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "loadgen/report/checks.h"
#include "loadgen/report/comparison.h"
#include "loadgen/report/figures.h"
#include "loadgen/report/labels.h"
#include "loadgen/report/line_fit.h"
#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

constexpr double load_to_buy_for = 0.5;
constexpr double largest_error = 0.5;   // of a figure
constexpr double usual_ports = 28'232;  // of Linux, towards one address

std::optional<double> relative(const Estimate& estimate) {
    if (!estimate.error || estimate.value == 0) return {};
    return *estimate.error / std::abs(estimate.value);
}

/// The product of two values with independent errors.
Estimate product(const Estimate& a, const Estimate& b) {
    Estimate result{a.value * b.value, {}};
    const auto of_a = relative(a);
    const auto of_b = relative(b);
    if (of_a && of_b) result.error = result.value * std::hypot(*of_a, *of_b);
    return result;
}

Estimate scaled(const Estimate& estimate, double factor) {
    Estimate result{estimate.value * factor, {}};
    if (estimate.error) result.error = *estimate.error * factor;
    return result;
}

bool differ_enough(std::span<const Point> points) {
    if (points.empty()) return false;
    const auto [least, most] = std::ranges::minmax(points, {}, &Point::x);
    return most.x > least.x * 1.2;
}

/// The server's memory while the clients of one run come in.
std::vector<Point> memory_while_ramping(const RunRecord& record) {
    std::vector<Point> points;
    const double ramped = record.marked(marks::go).value_or(0);
    for (const auto& stretch : record.series) {
        const double clients = stretch.measured[Gauge::clients_open];
        const double memory = stretch.measured[Gauge::server_memory];
        if (stretch.second <= ramped && clients >= 0 && memory >= 0)
            points.push_back({clients, memory});
    }
    return points;
}

class Planner {
public:
    Planner(std::span<const RunRecord> records, double clients, double clients_per_node)
        : records_(records) {
        plan_.clients = clients;
        plan_.nodes = std::max(1.0, std::ceil(clients / std::max(1.0, clients_per_node)));
    }

    PaperPlan plan() {
        measure();
        packets();
        memory();
        cpu();
        refuse_nonsense();
        doubt_the_range();
        doubt_the_runs();
        return std::move(plan_);
    }

private:
    void doubt(std::string text) { plan_.doubts.push_back(std::move(text)); }

    void measure() {
        plan_.ports = usual_ports;
        for (const auto& record : records_) {
            if (auto point = cost_of(record)) plan_.measured.push_back(std::move(*point));
            if (record.machine.ports > 0) plan_.ports = record.machine.ports;
        }
        if (plan_.measured.empty())
            throw std::runtime_error("no run of these had clients that were measured");
        std::ranges::stable_sort(plan_.measured, {}, &CostPoint::clients);
    }

    void packets() {
        std::vector<double> of_a_client;
        for (const auto& point : plan_.measured)
            of_a_client.push_back(point.packets / point.clients);
        plan_.packets = scaled(mean_of(of_a_client), plan_.clients);
    }

    void memory() {
        std::vector<Point> points;
        for (const auto& point : plan_.measured)
            if (point.memory) points.push_back({point.clients, *point.memory});
        if (points.empty()) return doubt("the server's memory was not seen");
        if (!differ_enough(points)) points = memory_while_ramping(records_.front());

        const auto fit = LineFit::through(points);
        if (!fit || !differ_enough(points)) {
            const auto& point = plan_.measured.back();
            plan_.memory_per_client = Estimate{point.memory.value_or(0) / point.clients, {}};
            plan_.memory = scaled(*plan_.memory_per_client, plan_.clients);
            return doubt(
                "memory was seen with one number of clients only: what the process takes "
                "at rest counts as theirs");
        }
        plan_.memory_per_client = fit->slope();
        plan_.memory_at_rest = fit->at_zero();
        const auto grown = scaled(fit->slope(), plan_.clients);
        const auto at_rest = scaled(fit->at_zero(), plan_.nodes);
        plan_.memory = Estimate{grown.value + at_rest.value, {}};
        if (grown.error && at_rest.error)
            plan_.memory->error = std::hypot(*grown.error, *at_rest.error);
    }

    void cpu() {
        std::vector<double> of_a_packet;
        for (const auto& point : plan_.measured)
            if (point.cpu && point.packets > 0) of_a_packet.push_back(*point.cpu / point.packets);
        if (of_a_packet.empty()) return doubt("the server's CPU was not seen");
        plan_.cpu_per_packet = mean_of(of_a_packet);
        plan_.cores_used = product(*plan_.cpu_per_packet, plan_.packets);
    }

    void refuse_nonsense() {
        constexpr auto remedy =
            "run each size with --scale against a freshly started server, and add runs";
        if (plan_.memory_per_client && plan_.memory_per_client->value < 0) {
            plan_.refused =
                fmt::format("the server's memory shrinks as clients are added, by {} a client: {}",
                            show_figure(-plan_.memory_per_client->value, Unit::bytes), remedy);
            return;
        }
        const std::array figures{
            std::pair("packets", std::optional(plan_.packets)),
            std::pair("memory a client", plan_.memory_per_client),
            std::pair("memory in all", plan_.memory),
            std::pair("CPU a packet", plan_.cpu_per_packet),
            std::pair("cores in use", plan_.cores_used),
        };
        for (const auto& [name, figure] : figures) {
            const auto error = figure ? relative(*figure) : std::nullopt;
            if (!error || *error <= largest_error) continue;
            plan_.refused = fmt::format(
                "the error of '{}' is {:.0f} %, and above {:.0f} % a figure says nothing: {}", name,
                *error * 100, largest_error * 100, remedy);
            return;
        }
    }

    void doubt_the_range() {
        const double most = plan_.measured.back().clients;
        if (plan_.clients > most * 1.05)
            doubt(
                fmt::format("beyond {} clients nothing was measured: this is {:.3g} times as "
                            "many, by straight lines",
                            show_figure(most, Unit::count), plan_.clients / most));
        if (plan_.nodes > 1) doubt("what the processes have to tell each other was not measured");
        if (plan_.measured.size() < 3)
            doubt(
                fmt::format("errors can be told from three runs with different numbers of "
                            "clients at least, not from {}",
                            plan_.measured.size()));
    }

    void doubt_the_runs() {
        const auto names = names_of(records_);
        for (std::size_t at = 0; at < records_.size(); ++at)
            if (const auto outcome = overall(records_[at].checks);
                outcome == CheckResult::Outcome::failed || outcome == CheckResult::Outcome::refused)
                doubt(fmt::format("'{}' did not pass: {}", names[at], records_[at].verdict));
    }

    std::span<const RunRecord> records_;
    PaperPlan plan_;
};

}  // namespace

std::optional<CostPoint> cost_of(const RunRecord& record) {
    const auto stretches = measured_stretches(record);
    const auto open = level_of(stretches, Gauge::clients_open);
    CostPoint point;
    point.name = record.name;
    point.clients = open ? open->mean : static_cast<double>(record.totals[Count::entered]);
    if (point.clients <= 0) return {};
    point.packets =
        mean_rate(record, Count::packets_sent) + mean_rate(record, Count::packets_received);
    if (const auto memory = level_of(stretches, Gauge::server_memory)) point.memory = memory->most;
    if (const auto cpu = level_of(stretches, Gauge::server_cpu)) point.cpu = cpu->mean;
    return point;
}

std::optional<Estimate> PaperPlan::cores() const {
    if (!cores_used) return {};
    return scaled(*cores_used, 1 / load_to_buy_for);
}

double PaperPlan::source_addresses() const {
    return ports > 0 ? std::ceil(clients_per_node() / ports) : 0;
}

PaperPlan plan_on_paper(std::span<const RunRecord> records, double clients,
                        double clients_per_node) {
    return Planner(records, clients, clients_per_node).plan();
}

}  // namespace pulsegate::load
