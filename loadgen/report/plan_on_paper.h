#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// A figure with its error (95 %), both in the figure's unit. Without an error there was too little
/// to tell it from.
struct Estimate {
    double value = 0;
    std::optional<double> error;
};

/// What a run says about the costs of a server with so many clients.
struct CostPoint {
    std::string name;
    double clients = 0;
    double packets = 0;            ///< a second, in both directions
    std::optional<double> memory;  ///< bytes
    std::optional<double> cpu;     ///< cores
};
std::optional<CostPoint> cost_of(const RunRecord& record);

/// What a larger number of clients would need, by straight lines through what was measured.
struct PaperPlan {
    double clients = 0;
    std::vector<CostPoint> measured;  ///< by number of clients
    Estimate packets;                 ///< a second
    std::optional<Estimate> memory_per_client;
    std::optional<Estimate> memory_at_rest;  ///< of a process without clients
    std::optional<Estimate> memory;          ///< of all processes together
    std::optional<Estimate> cpu_per_packet;  ///< seconds of one core
    std::optional<Estimate> cores_used;
    double nodes = 0;                 ///< processes
    double ports = 0;                 ///< of a source address, towards one process
    std::vector<std::string> doubts;  ///< what the figures do not rest on

    double clients_per_node() const { return nodes > 0 ? clients / nodes : 0; }
    /// To buy: in use for half of the time, so that a storm finds the other half.
    std::optional<Estimate> cores() const;
    /// Addresses that a generator or a proxy connects from.
    double source_addresses() const;
};

/// A process shall hold `clients_per_node` at most. Throws `std::runtime_error` if no record says
/// anything about clients.
PaperPlan plan_on_paper(std::span<const RunRecord> records, double clients,
                        double clients_per_node = 100'000);

std::string plan_text(const PaperPlan& plan);

}  // namespace pulsegate::load
