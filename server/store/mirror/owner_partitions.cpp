#include "server/store/mirror/owner_partitions.h"

namespace pulsegate {

std::optional<Partition> OwnerPartitions::find(OwnerId owner) const {
    const auto found = partitions_.find(owner);
    if (found == partitions_.end()) return std::nullopt;
    return found->second;
}

void OwnerPartitions::ended(OwnerId owner) {
    constexpr std::size_t most_ended = 100'000;
    ended_.push_back(owner);
    if (ended_.size() <= most_ended) return;
    partitions_.erase(ended_.front());
    ended_.pop_front();
}

}  // namespace pulsegate
