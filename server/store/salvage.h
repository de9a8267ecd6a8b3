#pragma once

#include <string>

#include "server/store/database.h"

namespace pulsegate {

/// Renames a damaged database and its WAL, and returns the new name: `path`.bad-TIME.
std::string set_aside(const std::string& path);

/// Copies what is readable in the damaged database to a new one, table by table, and logs what it
/// has found.
void salvage(const std::string& damaged, Database& database, const char* vfs);

}  // namespace pulsegate
