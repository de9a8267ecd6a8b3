#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loadgen/report/line_fit.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

/// The costs of a server with this many clients, from a run.
struct CostPoint {
    std::string name;
    double clients = 0;
    double packets = 0;            ///< a second, in both directions
    std::optional<double> memory;  ///< bytes
    std::optional<double> cpu;     ///< cores
};
std::optional<CostPoint> cost_of(const RunRecord& record);

/// The estimated need of a larger number of clients, by straight lines through the measured values.
struct PaperPlan {
    double clients = 0;
    std::vector<CostPoint> measured;  ///< by number of clients
    Estimate packets;                 ///< a second
    std::optional<Estimate> memory_per_client;
    std::optional<Estimate> memory_at_rest;  ///< memory of a process without clients
    std::optional<Estimate> memory;          ///< memory of all processes together
    std::optional<Estimate> cpu_per_packet;  ///< seconds of one core
    std::optional<Estimate> cores_used;
    double nodes = 0;                 ///< processes
    double ports = 0;                 ///< ports of one source address towards one process
    std::vector<std::string> doubts;  ///< reasons to doubt the figures
    std::string refused;              ///< why the runs allow no estimate; empty: they allow one

    double clients_per_node() const { return nodes > 0 ? clients / nodes : 0; }
    /// The cores to buy: they are used only half of the time, so that a storm finds the other half.
    std::optional<Estimate> cores() const;
    /// Addresses that a generator or a proxy connects from.
    double source_addresses() const;
};

/// One process has at most `clients_per_node` clients. The plan is refused if memory shrinks with
/// the clients, or if an error is larger than half of its figure. Throws `std::runtime_error` if no
/// record has figures about clients.
PaperPlan plan_on_paper(std::span<const RunRecord> records, double clients,
                        double clients_per_node = 100'000);

std::string plan_text(const PaperPlan& plan);

}  // namespace pulsegate::load
