#include "server/routing/retained_seats.h"

namespace pulsegate {

void intrusive_ptr_add_ref(RetainedSeat* seat) {
    seat->references_.fetch_add(1, std::memory_order_relaxed);
}

void intrusive_ptr_release(RetainedSeat* seat) {
    if (seat->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete seat;
}

RetainedSeat::~RetainedSeat() {
    const std::lock_guard lock(seats_->mutex_);
    seats_->release(*this);
}

/// A later message may be on its way, which goes on with it.
void RetainedSeat::give_back(std::uint64_t stamp) {
    const std::lock_guard lock(seats_->mutex_);
    if (stamp_ <= stamp) seats_->release(*this);
}

RetainedSeatRef RetainedSeats::take(const RetainedSeatRef& present, const Message& message,
                                    const Limits& limits) {
    const std::lock_guard lock(mutex_);
    const bool goes_on = present && present->is_charged_;
    if (goes_on && present->stamp_ > message.stamp) return present;  // that one will win
    if (!has_room(goes_on ? present.get() : nullptr, message, limits)) return nullptr;
    RetainedSeatRef seat =
        goes_on ? present : RetainedSeatRef(new RetainedSeat(shared_from_this()));
    charge(*seat, message);
    return seat;
}

RetainedSeatRef RetainedSeats::take_anyway(const Message& message) {
    const std::lock_guard lock(mutex_);
    RetainedSeatRef seat(new RetainedSeat(shared_from_this()));
    charge(*seat, message);
    return seat;
}

RetainedSeats::Share RetainedSeats::share_of(std::uint64_t sender) const {
    const auto found = users_.find(sender);
    return found == users_.end() ? Share{} : found->second;
}

bool RetainedSeats::has_room(const RetainedSeat* present, const Message& message,
                             const Limits& limits) const {
    Share all = all_;
    Share own = share_of(message.sender);
    const auto subtract = [&](Share& share) {
        --share.messages;
        share.bytes -= present->bytes_;
    };
    if (present) subtract(all);
    if (present && present->sender_ == message.sender) subtract(own);
    const std::size_t more = message.cost();
    const bool is_gateways = message.sender == 0;
    const bool fits_share =
        own.messages < limits.messages_of_user && own.bytes + more <= limits.bytes_of_user;
    return all.messages < limits.messages && all.bytes + more <= limits.bytes &&
           (is_gateways || fits_share);
}

void RetainedSeats::charge(RetainedSeat& seat, const Message& message) {
    release(seat);
    seat.is_charged_ = true;
    seat.stamp_ = message.stamp;
    seat.sender_ = message.sender;
    seat.bytes_ = message.cost();
    Share& own = users_[seat.sender_];
    for (Share* share : {&own, &all_}) {
        ++share->messages;
        share->bytes += seat.bytes_;
    }
}

void RetainedSeats::release(RetainedSeat& seat) {
    if (!std::exchange(seat.is_charged_, false)) return;
    const auto own = users_.find(seat.sender_);
    for (Share* share : {&own->second, &all_}) {
        --share->messages;
        share->bytes -= seat.bytes_;
    }
    if (own->second.messages == 0) users_.erase(own);
}

}  // namespace pulsegate
