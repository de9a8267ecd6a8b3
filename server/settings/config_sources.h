#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/settings/config_options.h"

namespace pulsegate {

/// The settings of one source: the texts of each setting that it names.
using Statements = std::map<std::string, std::vector<StatedValue>, std::less<>>;

/// Reports a fault at this place.
using SettingFault = std::function<void(const SettingOrigin& origin, const std::string& what)>;

/// The contents of the command line besides settings.
struct CommandLine {
    Statements settings{};
    std::string config_file{};  ///< "": none
    bool check = false;         ///< --check
    bool print_config = false;  ///< --print-config
};

/// Throws UsageRequested for `--help` and the like, and ConfigError if the line can't be parsed.
CommandLine read_command_line(const Settings& settings, int argc, const char* const* argv,
                              const SettingFault& fault);

Statements read_config_file(const Settings& settings, const std::string& path,
                            const SettingFault& fault);

/// Reads the variables PULSEGATE_...; `environment` ends with a null pointer, or is null. Sets
/// `config_file` to the value of PULSEGATE_CONFIG.
Statements read_environment(const Settings& settings, const char* const* environment,
                            std::string& config_file, const SettingFault& fault);

/// `PULSEGATE_IDLE_TIMEOUT`
std::string variable_of(const std::string& setting);

/// `; did you mean idle-timeout?`, or another hint.
std::string remedy_for_unknown(const Settings& settings, const std::string& name,
                               const std::function<std::string(const std::string&)>& as_written);

}  // namespace pulsegate
