#include "server/limits/lifted_bans.h"

namespace pulsegate {

BanLift LiftedBans::add(const Address& address, Millis now) {
    if (lifts_.size() >= most) drop_oldest();
    numbers_[address] = ++last_;
    lifts_.push_back({{last_, address}, now});
    return lifts_.back().lift;
}

std::uint32_t LiftedBans::number_of(const Address& address) const {
    const auto found = numbers_.find(address);
    return found == numbers_.end() ? 0 : found->second;
}

void LiftedBans::forget(Millis before) {
    while (!lifts_.empty() && lifts_.front().when < before) drop_oldest();
}

void LiftedBans::drop_oldest() {
    const BanLift lift = lifts_.front().lift;
    lifts_.pop_front();
    if (number_of(lift.address) == lift.number) numbers_.erase(lift.address);
}

}  // namespace pulsegate
