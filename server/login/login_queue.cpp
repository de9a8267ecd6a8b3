#include "server/login/login_queue.h"

#include <algorithm>

namespace pulsegate {

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

std::optional<LoginQueue::Ticket> LoginQueue::next_overdue(Millis now, Millis least) {
    if (waiting_.empty()) return std::nullopt;
    const auto oldest = waiting_.begin();
    const auto [ticket, waiting] = *oldest;
    if (now - waiting.since < std::max(wait_, least)) return std::nullopt;
    order_.remove(waiting.address, ticket);
    waiting_.erase(oldest);
    return ticket;
}

}  // namespace pulsegate
