#pragma once

#include <algorithm>
#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <optional>

#include "server/base/clock.h"
#include "server/session/state/outbox.h"

namespace pulsegate {

/// The messages in flight that are to be stored unless they are acknowledged before, by the
/// millisecond when that is due, at most `span` ahead: to add one and to remove one is O(1). It
/// belongs to the shard's thread.
class AckDeadlines {
public:
    static constexpr Millis span = 128;

    void add(Unstored& unstored) {
        looked_ = std::min(looked_, unstored.due);  // the caller's clock may be behind
        slot(unstored.due).push_back(unstored);
    }

    /// One that is due, or null.
    Unstored* due(Millis now) {
        for (looked_ = std::max(looked_, now - span + 1); looked_ <= now; ++looked_) {
            Slot& first = slot(looked_);
            if (!first.empty() && first.front().due <= now) return &first.front();
        }
        return nullptr;
    }

    /// When the next one is; nothing: there is none.
    std::optional<Millis> next() const {
        std::optional<Millis> earliest;
        for (const Slot& each : slots_)
            if (!each.empty())
                earliest = std::min(earliest.value_or(each.front().due), each.front().due);
        return earliest;
    }

private:
    using Slot = boost::intrusive::list<Unstored, boost::intrusive::constant_time_size<false>>;

    Slot& slot(Millis time) { return slots_[static_cast<std::size_t>(time % span)]; }

    std::array<Slot, static_cast<std::size_t>(span)> slots_;
    Millis looked_ = 0;  ///< nothing is due before this
};

}  // namespace pulsegate
