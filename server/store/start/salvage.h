#pragma once

#include <string>

#include "server/store/pages/page_image.h"

namespace pulsegate {

/// Makes a new database at `path`, which must not exist, from all rows that the image still has,
/// and logs what it has found. It has the version of the damaged database, or the newest version if
/// that is not known. `is_mixed`: some pages are older than others. The memory does not grow with
/// the database. Returns the error, or nothing.
std::string salvage(const PageImage& image, bool is_mixed, const std::string& path);

}  // namespace pulsegate
