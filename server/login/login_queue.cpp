#include "server/login/login_queue.h"

#include <algorithm>

namespace pulsegate {

bool LoginQueue::take(Millis now) {
    if (settings_.rate == 0) return true;
    constexpr double burst = 0.05;  // seconds: little enough for connected clients not to notice
    const double most = std::max(1.0, settings_.rate * burst);
    const auto passed = static_cast<double>(now - allowed_at_) / 1000;
    allowance_ = std::min(most, allowance_ + passed * settings_.rate);
    allowed_at_ = now;
    if (allowance_ < 1) return false;
    allowance_ -= 1;
    return true;
}

void LoginQueue::add(const Address& address, Ticket ticket, Millis now) {
    waiting_.emplace(ticket, Waiting{address, now});
    order_.add(address, ticket);
}

std::optional<LoginQueue::Ticket> LoginQueue::next() {
    if (order_.empty()) return std::nullopt;
    const Ticket ticket = order_.take_first().ticket;
    waiting_.erase(ticket);
    return ticket;
}

std::optional<LoginQueue::Ticket> LoginQueue::next_overdue(Millis now) {
    if (waiting_.empty()) return std::nullopt;
    const auto oldest = waiting_.begin();
    const auto [ticket, waiting] = *oldest;
    if (now - waiting.since < settings_.wait) return std::nullopt;
    order_.remove(waiting.address, ticket);
    waiting_.erase(oldest);
    return ticket;
}

}  // namespace pulsegate
