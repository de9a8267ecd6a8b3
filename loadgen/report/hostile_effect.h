#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/report/figures.h"
#include "loadgen/report/labels.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

/// The service that well-behaved clients got in the quiet part of a run, and with hostile clients
/// among them.
struct HostileEffect {
    struct Side {
        Measurements measured;
        double length = 0;  ///< seconds
        std::optional<double> server_cpu;

        std::optional<double> percentile(Timing timing, double fraction) const;  ///< seconds
        std::optional<double> rate(Count count) const;
        /// The fraction of sent messages that has arrived. If it is less than without hostile
        /// clients, messages were lost.
        std::optional<double> arrived() const;
    };
    Side before;
    Side with;
    /// A message to a room arrives many times, so missing deliveries can't be seen from it.
    bool one_receiver_each = true;
};

/// Nothing if there were no hostile clients, or if one of the two parts is missing. The second in
/// which hostile clients come belongs to neither part. A storm belongs to neither part either,
/// because it slows down clients by itself.
std::optional<HostileEffect> hostile_effect(const RunRecord& record);

/// Why there is nothing to compare; empty if there is.
std::string why_no_hostile_effect(const RunRecord& record);

/// The two parts as a table.
struct EffectRow {
    std::string_view label;
    Unit unit;
    std::optional<double> before;
    std::optional<double> with;
};
std::vector<EffectRow> effect_rows(const HostileEffect& effect);

}  // namespace pulsegate::load
