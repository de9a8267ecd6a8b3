#include "server/settings/config_reload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <utility>

namespace pulsegate {

namespace {

/// `idle-timeout = "20s" (pulsegate.toml:3)`
std::string described_change(const Setting& setting) {
    const SettingOrigin origin =
        setting.stated.empty() ? SettingOrigin{} : setting.stated.front().origin;
    return fmt::format("{} ({})", setting.written_in_force(), origin.text());
}

/// All settings that have other values now. Both have the same settings, in the same order.
ReloadOutcome changes_between(const Settings& before, const Settings& now) {
    ReloadOutcome changes;
    for (std::size_t i = 0; i < now.all().size(); ++i) {
        const Setting& setting = now.all()[i];
        if (setting.values() == before.all()[i].values()) continue;
        auto& list =
            setting.changes_live(before.all()[i]) ? changes.applied : changes.needs_restart;
        list.push_back(described_change(setting));
    }
    return changes;
}

}  // namespace

ConfigReload::ConfigReload(int argc, const char* const* argv, const char* const* environment)
    : argc_(argc),
      argv_(argv),
      environment_(environment),
      in_force_(std::make_unique<ConfigReading>(argc, argv, environment)) {}

ReloadOutcome ConfigReload::reload(const Apply& apply) {
    const ConfigReading fresh(argc_, argv_, environment_);
    auto outcome = changes_between(in_force_->settings(), fresh.settings());
    auto next = std::make_unique<ConfigReading>(*in_force_, fresh);
    outcome.faults = fresh.faults();
    if (outcome.faults.empty()) outcome.faults = next->faults();
    if (outcome.faults.empty())
        for (const std::string& fault : apply(next->config()))
            outcome.faults.push_back(next->located(fault));
    if (outcome.faults.empty())
        in_force_ = std::move(next);
    else
        outcome.applied.clear();
    return outcome;
}

void log_outcome(const ReloadOutcome& outcome) {
    for (const std::string& fault : outcome.faults) spdlog::error("not reloaded: {}", fault);
    if (!outcome.faults.empty())
        return spdlog::error("nothing was changed; correct the errors, and send SIGHUP again");
    if (!outcome.applied.empty())
        spdlog::info("settings reloaded: {}", fmt::join(outcome.applied, ", "));
    if (!outcome.needs_restart.empty())
        spdlog::warn("settings that need a restart: {}", fmt::join(outcome.needs_restart, ", "));
    if (outcome.applied.empty() && outcome.needs_restart.empty())
        spdlog::info("settings: nothing changed");
}

}  // namespace pulsegate
