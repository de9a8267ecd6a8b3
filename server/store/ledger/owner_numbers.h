#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Numbers that no owner in the store has, from `first` to `last`. They have 64 bits, so that a
/// range can be empty behind the last number.
struct OwnerRange {
    std::uint64_t first = 1;  ///< 0 is no number
    std::uint64_t last = std::numeric_limits<OwnerId>::max();

    std::uint64_t size() const { return first <= last ? last - first + 1 : 0; }
};

/// The numbers that the store mentions. It takes 2 MiB, because it knows only in which blocks of
/// 256 numbers they are.
class UsedOwners {
public:
    UsedOwners();

    void note(OwnerId owner);

    /// The numbers for new owners: all above the highest number in use. From half of all numbers
    /// on, these may soon be used up, so the largest gap between numbers in use is taken instead.
    OwnerRange unused() const;

private:
    std::vector<bool> blocks_;
    OwnerId highest_ = 0;
};

/// Gives each new owner a number. Any thread may use it after `use`.
class OwnerNumbers {
public:
    explicit OwnerNumbers(OwnerRange unused = {}) { use(unused); }

    void use(OwnerRange unused);

    /// 0: none is left, so the owner can't be stored.
    OwnerId next();

    /// Are only those numbers left that are kept for owners that can't be refused?
    bool are_nearly_used_up() const {
        return next_.load(std::memory_order_relaxed) >= kept_.load(std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint64_t> next_{1};
    std::atomic<std::uint64_t> kept_{1};  ///< the first number of those that are kept
    std::atomic<std::uint64_t> last_{0};
};

}  // namespace pulsegate
