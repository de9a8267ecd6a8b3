#pragma once

#include <queue>
#include <utility>
#include <vector>

#include "loadgen/time.h"
#include "wheel/wheel.h"

namespace pulsegate::load {

/// An object with one next time.
struct AgendaEntry : Wheel::Node {
    Time due = Time::max();
};

/// The times at which clients have something to do. Most entries wait in a timing wheel with a
/// coarse grain. The entries of the current tick are in order: these are few enough to stay in the
/// caches, and to be taken out of the wheel within a fraction of a millisecond.
class Agenda {
public:
    void start(Time at) { start_ = at; }

    /// Replaces the earlier plan of the entry.
    void plan(AgendaEntry& entry, Time due) {
        entry.due = due;
        if (due == Time::max()) return Wheel::cancel(entry);
        if (tick(due) > wheel_.now()) {
            wheel_.schedule(entry, tick(due));
        } else {
            Wheel::cancel(entry);
            this_tick_.emplace(due, &entry);
        }
    }
    void cancel(AgendaEntry& entry) { plan(entry, Time::max()); }

    /// Calls `act(AgendaEntry&)` for all due entries. Entries may be planned again meanwhile; they
    /// must live as long as the agenda.
    template <class Act>
    void advance(Time now, Act act) {
        wheel_.advance(tick(now), [this](Wheel::Node& node) {
            auto& entry = static_cast<AgendaEntry&>(node);
            this_tick_.emplace(entry.due, &entry);
        });
        while (!this_tick_.empty() && this_tick_.top().first <= now) {
            const auto [due, entry] = this_tick_.top();
            this_tick_.pop();
            if (entry->due != due) continue;  // it was planned again since
            entry->due = Time::max();
            act(*entry);
        }
    }

    /// When to advance next: to the first entry of the current tick, or to the next tick.
    Time next() const {
        return this_tick_.empty() ? start_ + (wheel_.now() + 1) * grain : this_tick_.top().first;
    }

private:
    static constexpr Duration grain = std::chrono::milliseconds(100);

    Tick tick(Time time) const {
        return time <= start_ ? 0 : static_cast<Tick>((time - start_) / grain);
    }

    using Due = std::pair<Time, AgendaEntry*>;
    Time start_{};
    Wheel wheel_;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> this_tick_;
};

}  // namespace pulsegate::load
