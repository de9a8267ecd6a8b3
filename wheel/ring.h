#pragma once

#include <cstddef>
#include <cstdint>

namespace pulsegate {

/// Ticks since the owner's start. With one tick a second they overflow after 136 years, which is
/// not handled.
using Tick = std::uint32_t;

/// The nodes that wait in one slot of a wheel, in a circular list that `end` closes. It allocates
/// nothing, because the links are in the nodes. Each kind of wheel has its own kind of node, so
/// that one object can wait on a wheel of each kind.
template <class Wheel>
struct Ring {
    /// Base class of objects that wait on a wheel. A `static_cast` of the `Node&` from `advance`
    /// gives the object. Destroying a node cancels it.
    class Node {
    public:
        Node() = default;
        Node(const Node&) = delete;
        Node& operator=(const Node&) = delete;
        ~Node() {
            if (ring_) ring_->remove(*this);
        }

        bool scheduled() const { return ring_ != nullptr; }

        /// The last deadline that it was scheduled for.
        Tick deadline() const { return deadline_; }

        /// Prefetches the memory that moving the node will access. With many nodes, it is in no
        /// cache.
        void fetch_neighbours() const {
            __builtin_prefetch(prev_, 1);
            __builtin_prefetch(next_, 1);
        }

    private:
        friend Ring;
        friend Wheel;

        Node* prev_ = this;
        Node* next_ = this;
        Ring* ring_ = nullptr;
        Tick deadline_ = 0;
    };

    Node end;
    std::uint32_t count = 0;

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

    /// The ring must not be empty.
    Node& first() { return *end.next_; }

    void clear() {
        while (count > 0) remove(*end.next_);
    }

    /// Calls `visit(Node&)` for each node, which it may move to another ring.
    template <class Visit>
    void for_each(Visit visit) {
        for (Node* node = end.next_; node != &end;) {
            Node* const next = node->next_;
            visit(*node);
            node = next;
        }
    }

    /// The same, until `visit` returns false. Then it returns false as well.
    template <class Visit>
    bool for_each_while(Visit& visit) {
        for (Node* node = end.next_; node != &end;) {
            Node* const next = node->next_;
            if (!visit(*node)) return false;
            node = next;
        }
        return true;
    }

    /// Removes up to `most` nodes and calls `take(Node&)` for each. `take` may do anything to any
    /// node. Returns true if more nodes are left.
    template <class Take>
    bool drain(Take&& take, std::size_t most) {
        for (; count > 0 && most > 0; --most) {
            Node& node = *end.next_;
            remove(node);
            take(node);
        }
        return count > 0;
    }
};

}  // namespace pulsegate
