#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <deque>
#include <optional>

#include "server/cluster/row_change.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// In which partition the rows of an owner lie: in that of its user, or of a room's topic, when it
/// was stored first. A retired owner has lost its user and stays where it is. It knows the latest
/// of the owners that have ended as well, for their messages go later: 100,000 of them.
class OwnerPartitions {
public:
    /// Nothing: it is not known, or has ended long ago.
    std::optional<Partition> find(OwnerId owner) const;

    /// One that is known stays where it is.
    void add(OwnerId owner, Partition partition) { partitions_.try_emplace(owner, partition); }
    void ended(OwnerId owner);

    std::size_t size() const { return partitions_.size(); }

private:
    boost::unordered_flat_map<OwnerId, Partition> partitions_;
    std::deque<OwnerId> ended_;
};

}  // namespace pulsegate
