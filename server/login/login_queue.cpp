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
    Round& last = last_[address];
    last = std::max(last, round_) + 1;
    waiting_.emplace(ticket, Waiting{address, last, now});
    order_.emplace(last, ticket);
}

std::optional<LoginQueue::Ticket> LoginQueue::next() {
    if (order_.empty()) return std::nullopt;
    const auto [round, ticket] = *order_.begin();
    round_ = round;
    remove(waiting_.find(ticket));
    return ticket;
}

std::optional<LoginQueue::Ticket> LoginQueue::next_overdue(Millis now) {
    if (waiting_.empty()) return std::nullopt;
    const auto oldest = waiting_.begin();
    if (now - oldest->second.since < settings_.wait) return std::nullopt;
    const Ticket ticket = oldest->first;
    remove(oldest);
    return ticket;
}

void LoginQueue::remove(std::map<Ticket, Waiting>::iterator entry) {
    const auto& [ticket, waiting] = *entry;
    order_.erase({waiting.round, ticket});
    const auto last = last_.find(waiting.address);
    if (last != last_.end() && last->second == waiting.round) last_.erase(last);
    waiting_.erase(entry);
}

}  // namespace pulsegate
