#include "server/store/ledger/owner_numbers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>

namespace pulsegate {

namespace {

constexpr std::uint64_t owners_of_block = 256;
constexpr std::uint64_t all_owners = std::uint64_t{1} << 32;

/// The most numbers that are kept for owners that can't be refused, such as rooms.
constexpr std::uint64_t most_kept_numbers = 1'000'000;

void say_used_up() {
    spdlog::error(
        "the numbers of stored sessions are nearly used up: new stored sessions are refused; "
        "restart the gateway, which then finds unused numbers");
}

}  // namespace

UsedOwners::UsedOwners() : blocks_(all_owners / owners_of_block) {}

void UsedOwners::note(OwnerId owner) {
    blocks_[static_cast<std::size_t>(owner / owners_of_block)] = true;
    highest_ = std::max(highest_, owner);
}

OwnerRange UsedOwners::unused() const {
    OwnerRange largest{.first = std::uint64_t{highest_} + 1};
    if (highest_ < all_owners / 2) return largest;
    std::uint64_t first = 1;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        if (!blocks_[block]) continue;
        const OwnerRange gap{.first = first, .last = block * owners_of_block - 1};
        if (block > 0 && gap.size() > largest.size()) largest = gap;
        first = (block + 1) * owners_of_block;
    }
    return largest;
}

void OwnerNumbers::use(OwnerRange unused) {
    next_ = unused.first;
    last_ = unused.last;
    kept_ = unused.last + 1 - std::min(unused.size() / 2, most_kept_numbers);
    if (unused.size() == 0) say_used_up();
}

OwnerId OwnerNumbers::next() {
    if (next_.load(std::memory_order_relaxed) > last_) return 0;
    const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    if (number + 1 == kept_) say_used_up();
    return number <= last_ ? static_cast<OwnerId>(number) : 0;
}

}  // namespace pulsegate
