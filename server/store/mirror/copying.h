#pragma once

#include <functional>
#include <vector>

#include "server/cluster/row_store.h"
#include "server/store/database/database.h"
#include "server/store/mirror/mirrored_table.h"
#include "server/store/mirror/row_places.h"

namespace pulsegate {

/// Takes some rows. Returns false if no more rows are wanted.
using TakeRows = std::function<bool(const std::vector<RowChange>& rows)>;

/// Passes all rows of the tables to `take`, about a megabyte at a time. Returns false if `take` has
/// ended it.
bool copy_rows(Database& database, const std::vector<MirroredTable>& tables, RowPlaces& places,
               const TakeRows& take);

/// The row that marks an unfinished import, during which rows are missing.
RowKey unfinished_import();

}  // namespace pulsegate
