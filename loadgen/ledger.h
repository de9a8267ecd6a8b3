#pragma once

#include <cstdint>
#include <unordered_map>

#include "loadgen/periods.h"
#include "loadgen/results.h"
#include "loadgen/stamp.h"
#include "loadgen/time.h"
#include "protocol/bytes.h"

namespace pulsegate::load {

/// The messages in flight, and counts of the others: it keeps the stamp of each until it arrives,
/// so that lost, duplicated and misdirected messages can be named.
class Ledger {
public:
    enum class Arrival { first, again, not_ours };

    Ledger(std::uint64_t run, std::size_t size, Results::Messages& counts, Periods& periods)
        : run_(run), size_(size), counts_(counts), periods_(periods) {}

    /// Records a message that is about to be sent and writes its payload to `out`.
    void post(std::uint32_t sender, std::uint32_t receiver, Time planned, Time now, Buffer& out);

    Arrival arrive(std::uint32_t receiver, Bytes payload, Time now);

    bool empty() const { return under_way_.empty(); }

    /// Calls `visit(const Stamp&)` for each message that has not arrived.
    template <class Visit>
    void for_each_missing(Visit visit) const {
        for (const auto& [sequence, stamp] : under_way_) visit(stamp);
    }

private:
    const std::uint64_t run_;
    const std::size_t size_;
    Results::Messages& counts_;
    Periods& periods_;
    std::uint64_t next_ = 0;
    std::unordered_map<std::uint64_t, Stamp> under_way_;  // by sequence
};

}  // namespace pulsegate::load
