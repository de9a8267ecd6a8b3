#pragma once

#include <functional>
#include <span>
#include <string>

#include "server/cluster/row_change.h"
#include "server/store/mirror/mirrored_row.h"
#include "server/store/mirror/mirrored_table.h"
#include "server/store/mirror/owner_partitions.h"

namespace pulsegate {

/// The partitions of a row in the mirror. Nearly all rows are in one partition. A message is in the
/// partitions of its receivers, in each with the receivers of that partition. If no receiver is
/// known, it is in the first partition.
class RowPlaces {
public:
    /// `owners` must outlive it.
    explicit RowPlaces(OwnerPartitions& owners) : owners_(owners) {}

    using Visit = std::function<void(Partition partition, std::string row)>;
    /// Visits the partitions that must have the row, with its value there.
    void to_put(const MirroredTable& table, std::span<const ColumnValue> row, const Visit& visit);

    /// Visits the partitions that may have the row, with its value there, or "" if that is not
    /// known.
    void to_delete(const MirroredTable& table, std::span<const ColumnValue> row,
                   const Visit& visit);

private:
    Partition of(const MirroredTable& table, std::span<const ColumnValue> row);
    bool visit_receivers(const MirroredTable& table, std::span<const ColumnValue> row,
                         const Visit& visit);

    OwnerPartitions& owners_;
};

}  // namespace pulsegate
