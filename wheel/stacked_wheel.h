#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "wheel/ring.h"

namespace pulsegate {

/// A timing wheel for many deadlines that are far away: days until a session ends, a week until a
/// message expires. `Wheel` looks at a waiting node once per lap; this wheel looks at it six times
/// at most. `schedule` and `cancel` are O(1). The wheel has no clock and no thread, and allocates
/// nothing: the owner passes the time.
///
/// Six wheels of 30 slots are stacked. A slot of level 0 is one tick, and a slot of each higher
/// level is one lap of the level below. A node waits on the lowest level that reaches its deadline
/// within one lap. When time enters its slot there, it moves down. The highest level covers 30^6
/// ticks, which is 23 years of seconds. A node with a later deadline waits there for several laps.
///
/// A node expires at the first `advance` to its deadline or later, never before. If the owner
/// schedules for ceil(time + timeout) and advances to floor(time), both in ticks, no node expires
/// early, and none more than one tick late.
class StackedWheel {
    using Ring = pulsegate::Ring<StackedWheel>;

public:
    using Node = Ring::Node;

    static constexpr Tick slots = 30;
    static constexpr std::size_t levels = 6;

    explicit StackedWheel(Tick now = 0) : now_(now) {}
    StackedWheel(const StackedWheel&) = delete;
    StackedWheel& operator=(const StackedWheel&) = delete;

    /// Nodes that still wait are left unscheduled.
    ~StackedWheel() {
        for (auto& level : rings_)
            for (Ring& ring : level) ring.clear();
        due_.clear();
    }

    /// Sets or moves the node's deadline. If the deadline is not after `now()`, the next tick is
    /// used, because time has passed the deadline's slot and would reach it again only after a lap.
    void schedule(Node& node, Tick deadline) {
        node.deadline_ = std::max(deadline, now_ + 1);
        move(node, ring_for(node.deadline_));
    }

    /// Harmless when the node is not scheduled.
    static void cancel(Node& node) {
        if (node.scheduled()) node.ring_->remove(node);
    }

    /// Advances the time to `now`, and calls `expire(Node&)` for each node that is due, in no
    /// particular order. The node is unscheduled before the call. `expire` may schedule, cancel and
    /// destroy any node, including this one. Nodes that it schedules are due at a later tick.
    ///
    /// A jump in time costs at most a look at every slot, and at the nodes in the slots that it
    /// reaches.
    template <class Expire>
    void advance(Tick now, Expire&& expire) {
        static_cast<void>(advance(now, expire, SIZE_MAX));
    }

    /// The same, for at most `most` nodes, and with at most `most_moved` nodes that move down.
    /// Returns true if more nodes are left for the next call. Time does not advance again before
    /// all nodes have moved.
    template <class Expire>
    [[nodiscard]] bool advance(Tick now, Expire&& expire, std::size_t most,
                               std::size_t most_moved = SIZE_MAX) {
        const bool more_to_move = !move_down(now, most_moved);
        return due_.drain(expire, most) || more_to_move;
    }

    Tick now() const { return now_; }

    std::size_t size() const {
        std::size_t sum = due_.count;
        for (const auto& level : rings_)
            for (const Ring& ring : level) sum += ring.count;
        return sum;
    }

private:
    /// The slot for a deadline in the future.
    Ring& ring_for(Tick deadline) {
        Tick slot = deadline;
        Tick current = now_;
        std::size_t level = 0;
        // A lap ahead is the slot where time is now, which will be entered again just then.
        for (; slot - current > slots && level + 1 < levels; ++level) {
            slot /= slots;
            current /= slots;
        }
        return rings_[level][slot % slots];
    }

    static void move(Node& node, Ring& ring) {
        if (node.ring_ == &ring) return;
        cancel(node);
        ring.add(node);
    }

    /// False: it has looked at `most` nodes, and there are more nodes.
    bool move_down(Tick now, std::size_t most) {
        while (true) {
            for (; left_ > 0 && entered_->count > 0; --left_) {
                if (most-- == 0) return false;
                place(entered_->first());
            }
            if (!enter_slot() && !begin(now)) return true;
        }
    }

    /// False: the time is not later than before.
    bool begin(Tick now) {
        if (now <= now_) return false;
        from_ = now_;
        to_ = now_ = now;
        level_ = 0;
        slots_left_ = std::min(to_ - from_, slots);
        return true;
    }

    /// From the lowest level upwards: a node that moves down is placed relative to `now`, and needs
    /// no second look. If time entered no slot on a level, it entered none on the levels above.
    bool enter_slot() {
        while (slots_left_ == 0) {
            if (level_ == levels) return false;
            from_ /= slots;
            to_ /= slots;
            ++level_;
            if (level_ == levels || from_ == to_) {
                level_ = levels;
                return false;
            }
            slots_left_ = std::min(to_ - from_, slots);
        }
        --slots_left_;
        entered_ = &rings_[level_][(to_ - slots_left_) % slots];
        left_ = entered_->count;
        return true;
    }

    /// A node that waits for the next lap goes to the end of the same slot, behind the other nodes.
    void place(Node& node) {
        node.ring_->remove(node);
        (node.deadline_ <= now_ ? due_ : ring_for(node.deadline_)).add(node);
    }

    Ring rings_[levels][slots];

    // Due nodes gather here before the first `expire`, so nothing that `expire` does can disturb a
    // slot that is being walked, and those that are too many for one call wait for the next.
    Ring due_;

    Tick now_;

    // The slots that time has entered. Their nodes are moving down.
    Tick from_ = 0;  ///< in laps of the level below, as `to_`
    Tick to_ = 0;
    std::size_t level_ = levels;  ///< `levels`: all nodes have moved
    Tick slots_left_ = 0;         ///< of the level
    Ring* entered_ = nullptr;
    std::uint32_t left_ = 0;  ///< nodes in it, without the nodes that were added since
};

static_assert(sizeof(StackedWheel::Node) <= 32);

}  // namespace pulsegate
