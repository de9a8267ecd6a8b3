#pragma once

#include <cstddef>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Operations that the store has refused, in their order. They are handed in again until it takes
/// them, for what they say is so in memory. While the store is in trouble, users come and go and
/// publish retained messages: only the last state of each is kept.
class RefusedOperations {
public:
    bool empty() const { return operations_.empty(); }
    /// About what they take in memory.
    std::size_t bytes() const { return bytes_; }

    /// Inserts them behind the first `place` ones.
    void insert(std::size_t place, std::vector<Operation>&& operations);
    std::size_t size() const { return operations_.size(); }

    /// Leaves out what a later one replaces, if there are twice as many as it left the last time.
    void leave_out_replaced();
    /// All of them; there are none then.
    std::vector<Operation> take();

private:
    static constexpr std::size_t few = 1000;

    std::vector<Operation> operations_;
    std::size_t bytes_ = 0;
    std::size_t left_ = 0;  ///< by the last call of `leave_out_replaced`
};

}  // namespace pulsegate
