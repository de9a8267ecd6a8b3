#pragma once

#include "server/store/database/database.h"
#include "server/store/files/store_folder.h"

namespace pulsegate {

/// Before a migration, makes a copy named pulsegate.db.v`version`, which the program of the older
/// `version` can open. Throws std::runtime_error if there is no room for it.
void keep_old_version(Database& database, int version, const StoreFolder& folder);

}  // namespace pulsegate
