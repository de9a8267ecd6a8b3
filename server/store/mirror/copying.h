#pragma once

#include <functional>
#include <vector>

#include "server/cluster/row_store.h"
#include "server/store/database/database.h"
#include "server/store/mirror/mirrored_table.h"
#include "server/store/mirror/row_places.h"

namespace pulsegate {

/// Takes some rows; false: no more are wanted.
using TakeRows = std::function<bool(const std::vector<RowChange>& rows)>;

/// Hands out all rows of the tables, a megabyte or so at a time. False if `take` has ended it.
bool copy_rows(Database& database, const std::vector<MirroredTable>& tables, RowPlaces& places,
               const TakeRows& take);

/// The row that says that rows are missing, because an import has not ended yet.
RowKey unfinished_import();

}  // namespace pulsegate
