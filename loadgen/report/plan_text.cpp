#include <fmt/format.h>

#include <cmath>

#include "loadgen/report/comparison.h"
#include "loadgen/report/labels.h"
#include "loadgen/report/plan_on_paper.h"
#include "loadgen/report/table.h"

namespace pulsegate::load {

namespace {

constexpr std::size_t plan_label = 26;
constexpr double files_besides = 100;  // listeners, storage, libraries

std::string error_text(const Estimate& estimate) {
    if (!estimate.error) return "error unknown";
    if (estimate.value == 0) return {};
    const double percent = *estimate.error / std::abs(estimate.value) * 100;
    return percent < 1 ? std::string("below 1 %") : fmt::format("± {:.0f} %", percent);
}

void add_estimate(TextTable& out, const char* label, const std::optional<Estimate>& estimate,
                  Unit unit, const std::string& remark = {}) {
    if (!estimate) return out.cells(label, {"not seen"});
    out.cells(label, {show_figure(estimate->value, unit), error_text(*estimate)});
    if (!remark.empty()) out.row("", remark);
}

std::string optional_text(const std::optional<double>& value, Unit unit) {
    return value ? show_figure(*value, unit) : "not seen";
}

void add_measured(TextTable& out, const PaperPlan& plan) {
    out.cells("measured", {"clients", "packets", "memory", "CPU"});
    for (const auto& point : plan.measured)
        out.cells(
            point.name,
            {show_figure(point.clients, Unit::count), show_figure(point.packets, Unit::per_second),
             optional_text(point.memory, Unit::bytes), optional_text(point.cpu, Unit::cores)});
}

void add_extrapolated(TextTable& out, const PaperPlan& plan) {
    out.cells("extrapolated", {show_figure(plan.clients, Unit::count), "error (95 %)"});
    add_estimate(out, "packets", plan.packets, Unit::per_second);
    add_estimate(out, "memory a client", plan.memory_per_client, Unit::bytes);
    if (plan.memory_at_rest)
        add_estimate(out, "memory of a process at rest", plan.memory_at_rest, Unit::bytes);
    add_estimate(out, "memory in all", plan.memory, Unit::bytes);
    add_estimate(out, "CPU a packet", plan.cpu_per_packet, Unit::time);
    add_estimate(out, "cores in use", plan.cores_used, Unit::cores);
    add_estimate(out, "cores to buy, half loaded", plan.cores(), Unit::cores);
}

std::string rounded_up(double value) { return show_figure(std::ceil(value), Unit::count); }

void add_nodes(TextTable& out, const PaperPlan& plan) {
    const double clients = plan.clients_per_node();
    out.row("processes",
            fmt::format("{}, with {} clients each", rounded_up(plan.nodes), rounded_up(clients)));
    std::string each = fmt::format("{} open files", rounded_up(clients + files_besides));
    if (plan.memory) each += ", " + show_bytes(plan.memory->value / plan.nodes);
    if (const auto cores = plan.cores())
        each += fmt::format(", {} cores", rounded_up(cores->value / plan.nodes));
    out.row("each of them", each);
    out.row("connecting from",
            fmt::format("{} addresses towards each process, {} ports of each: generators and "
                        "proxies need them",
                        rounded_up(plan.source_addresses()), rounded_up(plan.ports)));
}

}  // namespace

std::string plan_text(const PaperPlan& plan) {
    TextTable out(plan_label + 2, 15);
    add_measured(out, plan);
    out.line();
    if (!plan.refused.empty()) {
        out.line("no estimate: " + plan.refused);
        return std::move(out).take();
    }
    add_extrapolated(out, plan);
    out.line();
    add_nodes(out, plan);
    if (!plan.doubts.empty()) out.line("\nlimits of this estimate:");
    for (const auto& doubt : plan.doubts) out.line("  " + doubt);
    return std::move(out).take();
}

}  // namespace pulsegate::load
