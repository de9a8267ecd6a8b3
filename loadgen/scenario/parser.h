#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadgen/scenario/scenario.h"
#include "loadgen/scenario/settings.h"

namespace pulsegate::load {

/// The text of a scenario, and its name in error messages.
struct ScenarioText {
    std::string name;
    std::string file;
    std::string text;
    bool built_in = false;
};

/// A built-in scenario, or else a file. Throws `std::runtime_error` with the remedy.
ScenarioText find_scenario(const std::string& name_or_file);

/// Reads the text, then the overrides in order. An override for a group applies to that group; any
/// other applies to all groups, even to groups with their own value. Throws `std::runtime_error`,
/// one line that names the setting and the remedy.
Scenario parse_scenario(const ScenarioText& text, const std::vector<Setting>& overrides = {},
                        double scale = 1);

}  // namespace pulsegate::load
