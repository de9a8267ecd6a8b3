#pragma once

#include "server/cluster/row_store.h"
#include "server/store/database/database.h"
#include "server/store/mirror/owner_partitions.h"

namespace pulsegate {

/// Fills the empty tables with all rows of the store, and `owners` with the partitions of owners.
/// Throws std::runtime_error.
void fill_tables(Database& database, RowStore& rows, OwnerPartitions& owners);

}  // namespace pulsegate
