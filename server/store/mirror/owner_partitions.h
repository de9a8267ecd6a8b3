#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <deque>
#include <optional>

#include "server/cluster/row_change.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The partition of an owner's rows: the partition of its user, or of a room's topic, when it was
/// first stored. A retired owner has lost its user and stays in its partition. It also knows the
/// 100,000 owners that ended last, because their messages are deleted later.
class OwnerPartitions {
public:
    /// Nothing if the owner is not known, or ended long ago.
    std::optional<Partition> find(OwnerId owner) const;

    /// A known owner stays in its partition.
    void add(OwnerId owner, Partition partition) { partitions_.try_emplace(owner, partition); }
    void ended(OwnerId owner);

    std::size_t size() const { return partitions_.size(); }

private:
    boost::unordered_flat_map<OwnerId, Partition> partitions_;
    std::deque<OwnerId> ended_;
};

}  // namespace pulsegate
