#include "server/store/memory_store.h"

#include <utility>

namespace pulsegate {

void MemoryStore::push(SessionId session, Delivery delivery) {
    queues_[session].push_back(std::move(delivery));
}

std::optional<Delivery> MemoryStore::pop(SessionId session) {
    const auto found = queues_.find(session);
    if (found == queues_.end()) return std::nullopt;
    Delivery oldest = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) queues_.erase(found);
    return oldest;
}

void MemoryStore::forget(SessionId session) { queues_.erase(session); }

}  // namespace pulsegate
