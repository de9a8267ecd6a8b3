#pragma once

#include <string>
#include <vector>

#include "server/settings/config.h"

namespace pulsegate {

/// The faults that a start would find in the files, folders and addresses that the settings name.
/// Each message begins with its setting and ends with the remedy. It neither binds nor writes
/// anything, so it does not notice ports in use or faults of the stored data.
std::vector<std::string> check_start(const Config& config);

}  // namespace pulsegate
