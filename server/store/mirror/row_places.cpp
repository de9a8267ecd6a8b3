#include "server/store/mirror/row_places.h"

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "server/store/rows/row_codec.h"

namespace pulsegate {

namespace {

using Partitioning = MirroredTable::Partitioning;

OwnerId owner_in(const ColumnValue& column) { return static_cast<OwnerId>(column.integer); }

}  // namespace

/// A message without a known receiver may have others in the table `receiver`, so it is in the
/// first partition.
void RowPlaces::to_put(const MirroredTable& table, std::span<const ColumnValue> row,
                       const Visit& visit) {
    if (table.partitioning != Partitioning::receivers)
        return visit(of(table, row), encode_row(row));
    bool is_placed = false;
    visit_receivers(table, row, [&](Partition partition, std::string part) {
        is_placed = true;
        visit(partition, std::move(part));
    });
    if (!is_placed) visit(0, encode_row(row));
}

/// If a receiver ended long ago, its partition is not known, so the row is deleted in all
/// partitions.
void RowPlaces::to_delete(const MirroredTable& table, std::span<const ColumnValue> row,
                          const Visit& visit) {
    if (table.partitioning != Partitioning::receivers)
        return visit(of(table, row), encode_row(row));
    if (visit_receivers(table, row, visit)) return;
    for (Partition partition = 0; partition < partitions; ++partition) visit(partition, "");
}

Partition RowPlaces::of(const MirroredTable& table, std::span<const ColumnValue> row) {
    const ColumnValue& column = row[static_cast<std::size_t>(table.column)];
    switch (table.partitioning) {
        case Partitioning::everywhere: return global_partition;
        case Partitioning::name: return partition_of(column.bytes);
        case Partitioning::owner: {
            const OwnerId owner = owner_in(row.front());
            owners_.add(owner, partition_of(column.bytes));
            return *owners_.find(owner);
        }
        case Partitioning::of_owner:
        case Partitioning::receivers: break;
    }
    // Rows of an owner that was never stored have no effect, so their partition does not matter.
    return owners_.find(owner_in(column)).value_or(0);
}

/// Returns false if not all partitions are known.
bool RowPlaces::visit_receivers(const MirroredTable& table, std::span<const ColumnValue> row,
                                const Visit& visit) {
    const auto place = static_cast<std::size_t>(table.column);
    const auto stamp = static_cast<Stamp>(row.front().integer);
    const auto receivers = decode_receivers(stamp, row[place].bytes);
    if (!receivers) return false;
    std::map<Partition, std::vector<Receiver>> by_partition;
    bool is_known = !receivers->empty();
    for (const Receiver& receiver : *receivers)
        if (const auto partition = owners_.find(receiver.owner))
            by_partition[*partition].push_back(receiver);
        else
            is_known = false;
    if (by_partition.size() == 1 && is_known) {
        visit(by_partition.begin()->first, encode_row(row));
        return true;
    }
    RowValues part(row.begin(), row.end());
    for (auto& [partition, of_partition] : by_partition) {
        const std::string encoded = encode_receivers(stamp, std::move(of_partition));
        part[place].bytes = encoded;
        visit(partition, encode_row(part));
    }
    return is_known;
}

}  // namespace pulsegate
