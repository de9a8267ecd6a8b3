#include "loadgen/truth/numbers.h"

#include <algorithm>

namespace pulsegate::load {

void Numbers::add(std::uint32_t from, std::uint32_t to) {
    if (from >= to) return;
    // The ranges from `first` to before `last` touch the new range, and become part of it.
    const auto first = std::ranges::lower_bound(ranges_, from, {}, &Range::to);
    const auto last = std::ranges::upper_bound(ranges_, to, {}, &Range::from);
    if (first == last) {
        ranges_.insert(first, {from, to});
        return;
    }
    *first = {std::min(from, first->from), std::max(to, (last - 1)->to)};
    ranges_.erase(first + 1, last);
}

std::uint32_t Numbers::count_in(std::uint32_t from, std::uint32_t to) const {
    std::uint32_t sum = 0;
    for (auto range = std::ranges::upper_bound(ranges_, from, {}, &Range::to);
         range != ranges_.end() && range->from < to; ++range)
        sum += std::min(to, range->to) - std::max(from, range->from);
    return sum;
}

}  // namespace pulsegate::load
