#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate::load {

/// A `key = value` of a scenario file or of the command line.
struct Setting {
    std::string where;  ///< for errors: "chat.scenario:12: 'qos'" or "--set qos=2"
    unsigned line = 0;  ///< of the file
    std::string group;  ///< empty: for the whole scenario, and the default of each group
    std::string key;
    std::string value;
};

struct SettingsOfFile {
    std::vector<Setting> settings;
    std::vector<Setting> groups;  ///< the headings, in their order; their key is empty
};

/// Splits a file into its lines. Throws `std::runtime_error` that names file, line and remedy.
SettingsOfFile read_settings(std::string_view text, std::string_view file);

/// Parses "--set key=value" or "--set group.key=value".
Setting read_override(std::string_view text);

/// The name that was probably meant, for an error: "; did you mean 'clients'?", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace pulsegate::load
