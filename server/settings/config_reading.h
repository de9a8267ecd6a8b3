#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/settings/config_options.h"
#include "server/settings/config_sources.h"

namespace pulsegate {

/// The settings of a process, read from the command line, the environment and the settings file,
/// each of which beats those behind it; and where each of them was stated.
class ConfigReading {
public:
    /// Throws UsageRequested, and ConfigError if the command line can't be taken apart; all other
    /// faults are kept.
    ConfigReading(int argc, const char* const* argv, const char* const* environment);
    /// What is in force after a reload: what `fresh` states of live settings, and what `in_force`
    /// states of those that need a restart.
    ConfigReading(const ConfigReading& in_force, const ConfigReading& fresh);
    ConfigReading(const ConfigReading&) = delete;
    ConfigReading& operator=(const ConfigReading&) = delete;

    const Config& config() const { return config_; }
    const Settings& settings() const { return settings_; }
    bool is_check() const { return is_check_; }            ///< by --check
    bool prints_config() const { return prints_config_; }  ///< by --print-config
    /// Each names its place, the setting and the remedy. In the order of the file's lines.
    std::vector<std::string> faults() const;

    /// A message that begins with the name of its setting, with the place before it where the
    /// setting was stated.
    std::string located(const std::string& message) const;

    /// Is the message about a setting with a wrong value? Then it says nothing new.
    bool follows(const std::string& message) const;

private:
    struct Found {
        SettingOrigin origin;
        std::string what;
    };

    void begin();
    void finish();
    void take(const Statements& statements);
    void take(Setting& setting, const std::vector<StatedValue>& values);
    std::vector<const Setting*> named_in(const std::string& message) const;

    Config config_{};
    Settings settings_{};
    bool is_check_ = false;
    bool prints_config_ = false;
    std::vector<Found> found_{};
    std::set<const Setting*> wrong_{};  ///< what follows from these is not told as well
};

}  // namespace pulsegate
