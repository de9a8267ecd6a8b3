#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/settings/config_options.h"
#include "server/settings/config_sources.h"

namespace pulsegate {

/// The settings of a process, and where each was stated. The command line has precedence over the
/// environment, and the environment over the settings file.
class ConfigReading {
public:
    /// Throws UsageRequested, and ConfigError if the command line can't be parsed. Keeps all other
    /// faults.
    ConfigReading(int argc, const char* const* argv, const char* const* environment);
    /// The settings in force after a reload: the live settings of `fresh`, and those of `in_force`
    /// that need a restart, without the places where these were stated.
    ConfigReading(const ConfigReading& in_force, const ConfigReading& fresh);
    ConfigReading(const ConfigReading&) = delete;
    ConfigReading& operator=(const ConfigReading&) = delete;

    const Config& config() const { return config_; }
    const Settings& settings() const { return settings_; }
    bool is_check() const { return is_check_; }            ///< --check was given
    bool prints_config() const { return prints_config_; }  ///< --print-config was given
    /// Each fault names its place, the setting and the remedy. In the order of the file's lines.
    std::vector<std::string> faults() const;

    /// Puts before a message the place where its setting was stated. The message begins with the
    /// setting's name.
    std::string located(const std::string& message) const;

    /// True if the message is about a setting that already has a fault, so it says nothing new.
    bool follows(const std::string& message) const;

    /// True if the message names this setting.
    bool names(const std::string& message, const std::string& setting) const;

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
    std::set<const Setting*> wrong_{};  ///< faults that follow from these are not reported
};

}  // namespace pulsegate
