#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/settings/config_reading.h"

namespace pulsegate {

/// The outcome of a reload. Settings are named as in the file, with their place.
struct ReloadOutcome {
    std::vector<std::string> applied{};
    std::vector<std::string> needs_restart{};  ///< settings that stay as they were
    std::vector<std::string> faults{};         ///< if there are any, nothing has changed
    bool restart_remedies_all = false;         ///< a restart would remedy all faults
};

/// Keeps the settings in force and reloads them while the gateway runs. Used from the main thread
/// only.
class ConfigReload {
public:
    /// Applies the live settings of the Config, and reads again all files that settings name.
    /// Returns the faults of the files; if there are any, nothing has changed.
    using Apply = std::function<std::vector<std::string>(const Config&)>;

    /// See ConfigReading. The arguments must outlive it.
    ConfigReload(int argc, const char* const* argv, const char* const* environment);

    const ConfigReading& in_force() const { return *in_force_; }

    /// Reads the settings again and applies those that can change now: all or none.
    ReloadOutcome reload(const Apply& apply);

private:
    const int argc_;
    const char* const* const argv_;
    const char* const* const environment_;
    std::unique_ptr<ConfigReading> in_force_;
};

/// Logs the outcome.
void log_outcome(const ReloadOutcome& outcome);

}  // namespace pulsegate
