#pragma once

#include <cstddef>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Operations that the store has refused, in order. Memory already has their effects, so they are
/// handed in again until the store accepts them. If several operations replace the same row, only
/// the last one is kept. So they stay few, even if users come and go while the store is in trouble.
class RefusedOperations {
public:
    bool empty() const { return operations_.empty(); }
    /// Their approximate memory.
    std::size_t bytes() const { return bytes_; }

    /// Inserts operations after the first `place` operations.
    void insert(std::size_t place, std::vector<Operation>&& operations);
    std::size_t size() const { return operations_.size(); }

    /// Leaves out operations that a later one replaces, if there are twice as many operations as
    /// the last call left.
    void leave_out_replaced();
    /// Removes and returns all operations.
    std::vector<Operation> take();

private:
    static constexpr std::size_t few = 1000;

    std::vector<Operation> operations_;
    std::size_t bytes_ = 0;
    std::size_t left_ = 0;  ///< after the last call of `leave_out_replaced`
};

}  // namespace pulsegate
