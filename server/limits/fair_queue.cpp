#include "server/limits/fair_queue.h"

#include "server/base/hash.h"

namespace pulsegate {

void FairQueue::add(const Address& address, std::string_view user, Ticket ticket) {
    const User hash = keyed_hash(user);
    addresses_.add(address, ticket);
    users_[address].add(hash, ticket);
    waiting_.emplace(ticket, Waiting{address, hash});
}

std::optional<FairQueue::Ticket> FairQueue::take_first() {
    if (empty()) return std::nullopt;
    const Address address = addresses_.take_first().flow;
    return taken(address, users_.at(address).take_first().ticket);
}

std::optional<FairQueue::Ticket> FairQueue::take_last() {
    if (empty()) return std::nullopt;
    const Address address = addresses_.take_last().flow;
    return taken(address, users_.at(address).take_last().ticket);
}

void FairQueue::remove(Ticket ticket) {
    const auto found = waiting_.find(ticket);
    if (found == waiting_.end()) return;
    const auto [address, user] = found->second;
    addresses_.take_last_of(address);
    users_.at(address).remove(user, ticket);
    taken(address, ticket);
}

FairQueue::Ticket FairQueue::taken(const Address& address, Ticket ticket) {
    if (const auto users = users_.find(address); users->second.empty()) users_.erase(users);
    waiting_.erase(ticket);
    return ticket;
}

}  // namespace pulsegate
