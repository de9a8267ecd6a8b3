#pragma once

#include <string>
#include <vector>

#include "server/settings/config.h"

namespace pulsegate {

/// What a start would find wrong with the files, folders and addresses that the settings name; each
/// message begins with its setting, and ends with the remedy. Neither binds nor writes anything:
/// ports that are taken, and what is stored, are not looked at.
std::vector<std::string> check_start(const Config& config);

}  // namespace pulsegate
