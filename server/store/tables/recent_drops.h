#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The stamps of retained messages that were dropped, by topic. Two shards may submit changes of
/// one topic in the wrong order, so an older message may come after the drop of a newer one. A drop
/// is remembered until all sources have submitted everything that they had begun before it. A new
/// process begins without drops, because no unit of the earlier process can still come.
class RecentDrops {
public:
    /// Sources have the numbers from 1 to `sources`. With 0, drops are forgotten with the process.
    explicit RecentDrops(std::size_t sources, std::size_t most = 100'000)
        : most_(most), sources_(sources) {}

    /// A transaction begins, possibly again.
    void begin() { added_.clear(); }
    /// Returns false if there is no room.
    bool add(std::string_view topic, Stamp stamp);
    /// True if a message with this stamp comes too late.
    bool is_dropped(std::string_view topic, Stamp stamp) const;
    void committed();

    /// A unit is committed.
    void heard(std::uint32_t source, std::uint32_t generation);
    /// The last transaction had everything that was submitted before it. If all sources were heard
    /// since this returned true, the drops age: it forgets those that were committed before that
    /// time, and returns true.
    bool caught_up();

    /// Must each source submit a unit, even an empty one, so that drops can be forgotten? Any
    /// thread may call it.
    bool awaits_units() const { return has_some_.load(std::memory_order_relaxed); }

private:
    using Drops = boost::unordered_flat_map<std::uint64_t, Stamp>;  // by the topic's hash

    struct Source {
        std::uint32_t generation = 0;
        bool was_heard = false;  ///< since the drops have aged
    };

    const std::size_t most_;
    Drops added_;   ///< by the transaction
    Drops recent_;  ///< since the drops have aged
    Drops older_;
    std::vector<Source> sources_;
    std::atomic<bool> has_some_{false};
};

}  // namespace pulsegate
