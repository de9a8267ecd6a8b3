#pragma once

#include <cstddef>
#include <string>

#include "server/cluster/row_store.h"

namespace pulsegate {

/// Copies a data folder to an empty row store. Nobody else may use the folder meanwhile. The folder
/// is not changed, except by a migration. Returns the number of copied rows. Throws
/// std::runtime_error that says what to do.
std::size_t import_folder(const std::string& folder, RowStore& rows);

}  // namespace pulsegate
