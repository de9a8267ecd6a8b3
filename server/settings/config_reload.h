#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/settings/config_reading.h"

namespace pulsegate {

/// What a reload has brought about. The settings are told as the file has them, with their place.
struct ReloadOutcome {
    std::vector<std::string> applied{};
    std::vector<std::string> needs_restart{};  ///< stay as they were
    std::vector<std::string> faults{};         ///< with these, nothing has changed
};

/// The settings in force, and how they change while the gateway runs. Used from the main thread
/// only.
class ConfigReload {
public:
    /// Puts the settings of the Config to use that are live, and reads anew all files that settings
    /// name. Returns what is wrong with these; then nothing has changed.
    using Apply = std::function<std::vector<std::string>(const Config&)>;

    /// As ConfigReading; the arguments must outlive it.
    ConfigReload(int argc, const char* const* argv, const char* const* environment);

    const ConfigReading& in_force() const { return *in_force_; }

    /// Reads the settings anew and applies those that can change now: all or none.
    ReloadOutcome reload(const Apply& apply);

private:
    const int argc_;
    const char* const* const argv_;
    const char* const* const environment_;
    std::unique_ptr<ConfigReading> in_force_;
};

/// Tells the outcome to the log.
void log_outcome(const ReloadOutcome& outcome);

}  // namespace pulsegate
