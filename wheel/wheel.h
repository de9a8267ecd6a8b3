#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "wheel/ring.h"

namespace pulsegate {

/// A hashed timing wheel: `schedule` and `cancel` are O(1), whatever the timeout is and however
/// many nodes there are. It has no clock and no thread, and allocates nothing: the owner passes the
/// time.
///
/// A node has a deadline and waits in slot `deadline % 30`. If the deadline is laps away, the node
/// is not due when time passes its slot, so 30 slots serve any timeout. A tick looks at the nodes
/// of one slot only. It skips them before the earliest deadline that was set in the slot since it
/// last looked at them.
///
/// If the owner schedules for ceil(time + timeout) and advances to floor(time), both in ticks, no
/// node expires early, and none more than one tick late.
class Wheel {
    using Ring = pulsegate::Ring<Wheel>;

public:
    using Node = Ring::Node;

    static constexpr Tick slots = 30;

    explicit Wheel(Tick now = 0) : now_(now) { std::fill_n(earliest_, slots, never); }
    Wheel(const Wheel&) = delete;
    Wheel& operator=(const Wheel&) = delete;

    /// Nodes that still wait are left unscheduled.
    ~Wheel() {
        for (Ring& ring : rings_) ring.clear();
        due_.clear();
    }

    /// Sets or moves the node's deadline. If the deadline is not after `now()`, the next tick is
    /// used, because time has passed the deadline's slot and would reach it again only after a lap.
    void schedule(Node& node, Tick deadline) {
        node.deadline_ = std::max(deadline, now_ + 1);
        const Tick slot = node.deadline_ % slots;
        earliest_[slot] = std::min(earliest_[slot], node.deadline_);
        Ring& ring = rings_[slot];
        if (node.ring_ == &ring) return;  // only the lap changed: spare the neighbours' cache lines
        cancel(node);
        ring.add(node);
    }

    /// Harmless when the node is not scheduled.
    static void cancel(Node& node) {
        if (node.scheduled()) node.ring_->remove(node);
    }

    /// Advances the time to `now`, and calls `expire(Node&)` for each node that is due, in no
    /// particular order. The node is unscheduled before the call. `expire` may schedule, cancel and
    /// destroy any node, including this one. Nodes that it schedules are due at a later tick.
    template <class Expire>
    void advance(Tick now, Expire&& expire) {
        collect_due(now);
        due_.drain(expire, SIZE_MAX);
    }

    /// The same, for at most `most` nodes. Returns true if more nodes are left for the next call.
    template <class Expire>
    [[nodiscard]] bool advance(Tick now, Expire&& expire, std::size_t most) {
        collect_due(now);
        return due_.drain(expire, most);
    }

    /// Calls `visit(Node&)` for every node, in no particular order. `visit` may cancel and destroy
    /// the node that it gets, but must not schedule any node.
    template <class Visit>
    void for_each(Visit visit) {
        for (Ring& ring : rings_) ring.for_each(visit);
        due_.for_each(visit);
    }

    /// The same until `visit` returns false.
    template <class Visit>
    void for_each_while(Visit visit) {
        for (Ring& ring : rings_)
            if (!ring.for_each_while(visit)) return;
        due_.for_each_while(visit);
    }

    Tick now() const { return now_; }

    std::size_t size() const {
        std::size_t sum = due_.count;
        for (const Ring& ring : rings_) sum += ring.count;
        return sum;
    }

    /// The number of nodes in the slot.
    std::uint32_t count(Tick slot) const { return rings_[slot].count; }

private:
    static constexpr Tick never = ~Tick{0};

    void collect_due(Tick now) {
        if (now <= now_) return;
        // Thirty ticks pass every slot; a longer jump has nothing more to see.
        const Tick passed = std::min(now - now_, slots);
        now_ = now;
        for (Tick ago = passed; ago-- > 0;) look_at((now - ago) % slots);
    }

    void look_at(Tick slot) {
        Tick& earliest = earliest_[slot];
        if (earliest > now_) return;
        earliest = never;
        Ring& ring = rings_[slot];
        ring.for_each([&](Node& node) {
            if (node.deadline_ > now_) {
                earliest = std::min(earliest, node.deadline_);
                return;
            }
            ring.remove(node);
            due_.add(node);
        });
    }

    Ring rings_[slots];
    Tick earliest_[slots];  ///< no node of the slot is due before this; the node with this deadline
                            ///< may have left

    // Due nodes gather here before the first `expire`, so nothing that `expire` does can disturb a
    // slot that is being walked. They are in no slot: scheduling one again always relinks it. And
    // should `expire` throw, the next `advance` goes on with the rest.
    Ring due_;

    Tick now_;
};

static_assert(sizeof(Wheel::Node) <= 32);

}  // namespace pulsegate
