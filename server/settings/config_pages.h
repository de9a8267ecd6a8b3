#pragma once

#include <string>

#include "server/settings/config_options.h"

namespace pulsegate {

// Texts for people, made from the table of settings.

/// A settings file in which every setting is a comment, with its default, type and use.
std::string sample_file(const Settings& settings);

/// A page of Markdown with all settings: server/docs/settings.md.
std::string settings_page(const Settings& settings);

/// The settings in force, as a settings file. A comment says where each was stated. Settings that
/// were not stated are comments with their defaults.
std::string settings_in_force(const Settings& settings);

}  // namespace pulsegate
