#pragma once

#include <queue>
#include <utility>
#include <vector>

#include "loadgen/time.h"
#include "wheel/wheel.h"

namespace pulsegate::load {

/// Something that has one next time.
struct AgendaEntry : Wheel::Node {
    Time due = Time::max();
};

/// When who has something to do. Most entries wait in a timing wheel of a second's grain, those of
/// the current second in order.
class Agenda {
public:
    void start(Time at) { start_ = at; }

    /// Instead of what was planned before.
    void plan(AgendaEntry& entry, Time due) {
        entry.due = due;
        if (due == Time::max()) return Wheel::cancel(entry);
        if (tick(due) > wheel_.now()) {
            wheel_.schedule(entry, tick(due));
        } else {
            Wheel::cancel(entry);
            this_second_.emplace(due, &entry);
        }
    }
    void cancel(AgendaEntry& entry) { plan(entry, Time::max()); }

    /// Calls `act(AgendaEntry&)` for whoever is due. Entries may be planned anew meanwhile; they
    /// live as long as the agenda.
    template <class Act>
    void advance(Time now, Act act) {
        wheel_.advance(tick(now), [this](Wheel::Node& node) {
            auto& entry = static_cast<AgendaEntry&>(node);
            this_second_.emplace(entry.due, &entry);
        });
        while (!this_second_.empty() && this_second_.top().first <= now) {
            const auto [due, entry] = this_second_.top();
            this_second_.pop();
            if (entry->due != due) continue;  // planned anew since
            entry->due = Time::max();
            act(*entry);
        }
    }

    /// Of what is due within the current second.
    Time next() const { return this_second_.empty() ? Time::max() : this_second_.top().first; }

private:
    Tick tick(Time time) const {
        return time <= start_ ? 0 : static_cast<Tick>((time - start_) / std::chrono::seconds(1));
    }

    using Due = std::pair<Time, AgendaEntry*>;
    Time start_{};
    Wheel wheel_;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> this_second_;
};

}  // namespace pulsegate::load
