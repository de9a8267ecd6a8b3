#pragma once

#include "server/cluster/row_store.h"
#include "server/store/database/database.h"
#include "server/store/mirror/owner_partitions.h"

namespace pulsegate {

/// Fills the tables, which are empty, with all rows of the store, and `owners` with where they lie.
/// Throws std::runtime_error.
void fill_tables(Database& database, RowStore& rows, OwnerPartitions& owners);

}  // namespace pulsegate
