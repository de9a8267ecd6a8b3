#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/report/comparison.h"
#include "loadgen/report/figures.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

/// What the well-behaved clients got in the quiet part of a run, and with hostile ones among them.
struct HostileEffect {
    struct Side {
        Measurements measured;
        double length = 0;  ///< seconds
        std::optional<double> server_cpu;

        std::optional<double> percentile(Timing timing, double fraction) const;  ///< seconds
        std::optional<double> rate(Count count) const;
        /// Of the messages sent, the part that has arrived. Less than without hostile clients:
        /// lost.
        std::optional<double> arrived() const;
    };
    Side before;
    Side with;
    /// A message to a room arrives many times: what is missing can't be seen from that.
    bool one_receiver_each = true;
};

/// Nothing if there were no hostile clients, or if one of the sides is missing. The second in which
/// they come is on no side, and a storm neither: it slows down clients by itself.
std::optional<HostileEffect> hostile_effect(const RunRecord& record);

/// Why there is nothing to compare; empty if there is.
std::string why_no_hostile_effect(const RunRecord& record);

/// The two sides as a table.
struct EffectRow {
    std::string_view label;
    Unit unit;
    std::optional<double> before;
    std::optional<double> with;
};
std::vector<EffectRow> effect_rows(const HostileEffect& effect);

}  // namespace pulsegate::load
