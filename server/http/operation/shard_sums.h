#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "server/base/counters.h"
#include "server/shard/shard_status.h"

namespace pulsegate {

/// Sums over all shards.
class ShardSums {
public:
    explicit ShardSums(const std::vector<ShardStatus>& shards) : shards_(shards) {}

    /// Adds up what `value` returns for each shard.
    template <class Value>
    std::uint64_t of(Value value) const {
        return std::accumulate(
            shards_.begin(), shards_.end(), std::uint64_t{0},
            [&](std::uint64_t all, const auto& each) { return all + value(each); });
    }
    std::uint64_t of(std::size_t ShardStatus::*member) const {
        return of([member](const ShardStatus& each) { return each.*member; });
    }
    std::uint64_t of(std::uint64_t Counters::*member) const {
        return of([member](const ShardStatus& each) { return each.counters.*member; });
    }
    /// Adds up all kinds, such as all types of packets.
    template <std::size_t Kinds>
    std::uint64_t of(std::array<std::uint64_t, Kinds> Counters::*kinds) const {
        return of([kinds](const ShardStatus& each) {
            const auto& counts = each.counters.*kinds;
            return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
        });
    }

    /// Messages that were dropped, for any reason.
    std::uint64_t dropped() const {
        return of([](const ShardStatus& each) {
            const Counters& counters = each.counters;
            return counters.dropped_too_large + counters.dropped_refused +
                   counters.dropped_expired + counters.dropped_queue_full +
                   counters.dropped_session_ended + counters.dropped_damaged +
                   counters.dropped_no_member + counters.dropped_no_inbox +
                   counters.dropped_no_receiver;
        });
    }

private:
    const std::vector<ShardStatus>& shards_;
};

}  // namespace pulsegate
