#pragma once

#include <algorithm>
#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <optional>

#include "server/base/clock.h"
#include "server/session/state/outbox.h"

namespace pulsegate {

/// The messages in flight that must be stored unless they are acknowledged before a deadline. They
/// are ordered by the deadline in ms, at most `span` ahead. Adding and removing are O(1). It
/// belongs to the shard's thread.
class AckDeadlines {
public:
    static constexpr Millis span = 128;

    void add(Unstored& unstored) {
        looked_ = std::min(looked_, unstored.due);  // the caller's clock may be behind
        slot(unstored.due).push_back(unstored);
    }

    /// A due message, or null.
    Unstored* due(Millis now) {
        for (looked_ = std::max(looked_, now - span + 1); looked_ <= now; ++looked_) {
            Slot& first = slot(looked_);
            if (!first.empty() && first.front().due <= now) return &first.front();
        }
        return nullptr;
    }

    /// The next deadline; nothing: there is none.
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
