#pragma once

#include <cstddef>
#include <string>

#include "server/cluster/row_store.h"

namespace pulsegate {

/// Copies all that a data folder has to a row store, which must be empty. Nobody else may use the
/// folder meanwhile; it stays as it is, but for a migration. Returns how many rows it has copied.
/// Throws std::runtime_error that says what to do.
std::size_t import_folder(const std::string& folder, RowStore& rows);

}  // namespace pulsegate
