#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pulsegate {

/// Ticks since the owner's start. At one a second they wrap around after 136 years: not handled.
using Tick = std::uint32_t;

/// A hashed timing wheel: `schedule` and `cancel` are O(1), whatever the timeout and however many
/// nodes there are. It has no clock, no thread and no allocation: the owner says what time it is.
///
/// A node carries its deadline and waits in slot `deadline % 30`. A deadline that is laps away is
/// just not due yet when time passes its slot, so 30 slots serve any timeout, and a tick looks at
/// the nodes of one slot only.
///
/// An owner that schedules for ceil(time + timeout) and advances to floor(time), both in ticks,
/// expires nobody early, and nobody more than one tick late.
class Wheel {
    struct Ring;

public:
    static constexpr Tick slots = 30;

    /// What can wait on a wheel. A class inherits from it and is recovered from the `Node&` that
    /// `advance` hands out by a `static_cast`. Destroying a node cancels it.
    class Node {
    public:
        Node() = default;
        Node(const Node&) = delete;
        Node& operator=(const Node&) = delete;
        ~Node() { cancel(*this); }

        bool scheduled() const { return ring_ != nullptr; }

        /// The last one it was scheduled for.
        Tick deadline() const { return deadline_; }

    private:
        friend class Wheel;

        Node* prev_ = this;
        Node* next_ = this;
        Ring* ring_ = nullptr;
        Tick deadline_ = 0;
    };

    explicit Wheel(Tick now = 0) : now_(now) {}
    Wheel(const Wheel&) = delete;
    Wheel& operator=(const Wheel&) = delete;

    /// Nodes that still wait are left unscheduled.
    ~Wheel() {
        for (Ring& ring : rings_) ring.clear();
        due_.clear();
    }

    /// Sets the node's deadline, or moves it. A deadline that is not after `now()` becomes the next
    /// tick: its own slot has been passed, and would not be looked at again for a lap.
    void schedule(Node& node, Tick deadline) {
        node.deadline_ = std::max(deadline, now_ + 1);
        Ring& ring = rings_[node.deadline_ % slots];
        if (node.ring_ == &ring) return;  // only the lap changed: spare the neighbours' cache lines
        cancel(node);
        ring.add(node);
    }

    /// Harmless when the node is not scheduled.
    static void cancel(Node& node) {
        if (node.scheduled()) node.ring_->remove(node);
    }

    /// Moves time on, by however much has passed, and calls `expire(Node&)` for each node that is
    /// due, in no particular order, but for `most` nodes only: true says that more are left, for
    /// the next call. The node is unscheduled by then. `expire` may schedule, cancel and destroy any
    /// node, this one too; what it schedules is due at a later tick.
    template <class Expire>
    bool advance(Tick now, Expire&& expire, std::size_t most = SIZE_MAX) {
        collect_due(now);
        for (; due_.count > 0 && most > 0; --most) {
            Node& node = due_.first();
            due_.remove(node);
            expire(node);
        }
        return due_.count > 0;
    }

    Tick now() const { return now_; }

    std::size_t size() const {
        std::size_t sum = due_.count;
        for (const Ring& ring : rings_) sum += ring.count;
        return sum;
    }

    /// How many nodes wait in the slot.
    std::uint32_t count(Tick slot) const { return rings_[slot].count; }

private:
    /// The nodes that wait in one place, linked in a circle that `end` closes.
    struct Ring {
        Node end;
        std::uint32_t count = 0;

        Node& first() { return *end.next_; }

        void add(Node& node) {
            node.ring_ = this;
            node.prev_ = end.prev_;
            node.next_ = &end;
            node.prev_->next_ = &node;
            end.prev_ = &node;
            ++count;
        }

        void remove(Node& node) {
            node.prev_->next_ = node.next_;
            node.next_->prev_ = node.prev_;
            node.ring_ = nullptr;
            --count;
        }

        void clear() {
            while (count > 0) remove(first());
        }
    };

    void collect_due(Tick now) {
        if (now <= now_) return;
        // Thirty ticks pass every slot; a longer jump has nothing more to see.
        const Tick passed = std::min(now - now_, slots);
        now_ = now;
        for (Tick ago = passed; ago-- > 0;) collect_due(rings_[(now - ago) % slots]);
    }

    void collect_due(Ring& ring) {
        for (Node* node = ring.end.next_; node != &ring.end;) {
            Node* const next = node->next_;
            if (node->deadline_ <= now_) {
                ring.remove(*node);
                due_.add(*node);
            }
            node = next;
        }
    }

    Ring rings_[slots];

    // Due nodes gather here before the first `expire`, so nothing that `expire` does can disturb a
    // slot that is being walked. They are in no slot: scheduling one again always relinks it. And
    // should `expire` throw, the next `advance` goes on with the rest.
    Ring due_;

    Tick now_;
};

static_assert(sizeof(Wheel::Node) <= 32);

}  // namespace pulsegate
