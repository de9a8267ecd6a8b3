#pragma once

#include <cstddef>
#include <cstdint>

namespace pulsegate {

/// Ticks since the owner's start. At one a second they wrap around after 136 years: not handled.
using Tick = std::uint32_t;

/// The nodes that wait in one place of a wheel, linked in a circle that `end` closes. It allocates
/// nothing: the links are in the nodes. Each kind of wheel has its own kind of nodes, so that one
/// object can wait on a wheel of each kind.
template <class Wheel>
struct Ring {
    /// What can wait on a wheel. A class inherits from it and is recovered from the `Node&` that
    /// `advance` hands out by a `static_cast`. Destroying a node cancels it.
    class Node {
    public:
        Node() = default;
        Node(const Node&) = delete;
        Node& operator=(const Node&) = delete;
        ~Node() {
            if (ring_) ring_->remove(*this);
        }

        bool scheduled() const { return ring_ != nullptr; }

        /// The last one it was scheduled for.
        Tick deadline() const { return deadline_; }

        /// Begins to fetch what moving the node will touch, which is in no cache with many nodes.
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

    /// There must be one.
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

    /// The same until `visit` returns false, and then returns false as well.
    template <class Visit>
    bool for_each_while(Visit& visit) {
        for (Node* node = end.next_; node != &end;) {
            Node* const next = node->next_;
            if (!visit(*node)) return false;
            node = next;
        }
        return true;
    }

    /// Removes up to `most` nodes and calls `take(Node&)` for each, which may do anything to any
    /// node. True if more are left.
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
