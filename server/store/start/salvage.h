#pragma once

#include <string>

#include "server/store/pages/page_image.h"

namespace pulsegate {

/// Makes a new database at `path`, which is not there yet, of all rows that the image still has,
/// and logs what it has found. It is of the version of the damaged one, or the newest if nobody can
/// tell. `is_mixed`: some pages are older than others. Memory does not grow with the database.
/// Returns what is wrong, or nothing.
std::string salvage(const PageImage& image, bool is_mixed, const std::string& path);

}  // namespace pulsegate
