#include "server/store/tables/stamp_set.h"

#include <algorithm>

namespace pulsegate {

bool StampSet::insert(Stamp stamp) {
    const std::size_t place = place_of(stamp);
    if (place < size_ && all()[place] == stamp) return false;
    if (size_ == room_) grow();
    Stamp* const here = begin() + place;
    std::move_backward(here, begin() + size_, begin() + size_ + 1);
    *here = stamp;
    ++size_;
    return true;
}

/// The index of the stamp, or the index at which it belongs.
std::size_t StampSet::place_of(Stamp stamp) const {
    if (empty() || all().back() < stamp) return size_;  // a new message has the highest stamp
    return static_cast<std::size_t>(std::ranges::lower_bound(all(), stamp) - all().begin());
}

bool StampSet::erase(Stamp stamp) {
    const std::size_t place = place_of(stamp);
    if (place == size_ || all()[place] != stamp) return false;
    erase(place, 1);
    return true;
}

void StampSet::erase_first(std::size_t count) {
    if (count > 0) erase(0, count);
}

void StampSet::erase(std::size_t first, std::size_t count) {
    std::move(begin() + first + count, begin() + size_, begin() + first);
    size_ -= static_cast<std::uint32_t>(count);
    if (size_ == 0)
        *this = StampSet();  // most owners that have received everything stay online for hours
}

void StampSet::grow() {
    auto* const larger = new Stamp[std::size_t{room_} * 2];
    std::ranges::copy(all(), larger);
    if (room_ > 1) delete[] place_.many;
    place_.many = larger;
    room_ *= 2;
}

}  // namespace pulsegate
