#include "server/settings/config_reload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
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

/// The changed settings that keep their values until a restart, as they are stated now.
std::vector<const Setting*> held_back(const Settings& before, const Settings& now) {
    std::vector<const Setting*> held;
    for (std::size_t i = 0; i < now.all().size(); ++i) {
        const Setting& setting = now.all()[i];
        const Setting& in_force = before.all()[i];
        if (setting.values() != in_force.values() && !setting.changes_live(in_force))
            held.push_back(&setting);
    }
    return held;
}

/// `fault` comes from this setting's value in force.
std::string needs_restart(const Setting& setting, const std::string& fault) {
    const SettingOrigin origin =
        setting.stated.empty() ? SettingOrigin{} : setting.stated.front().origin;
    return origin.located(
        fmt::format("{}: its new value needs a restart, and a reload with the value in force fails "
                    "({}); restart the gateway",
                    setting.name, fault.substr(0, fault.find("; "))));
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
    if (outcome.faults.empty()) apply_if_right(*next, fresh, apply, outcome);
    if (outcome.faults.empty())
        in_force_ = std::move(next);
    else
        outcome.applied.clear();
    return outcome;
}

/// All that is stated is right. So a fault that names a value in force concerns nothing that the
/// operator could correct.
void ConfigReload::apply_if_right(const ConfigReading& next, const ConfigReading& fresh,
                                  const Apply& apply, ReloadOutcome& outcome) const {
    const auto held = held_back(in_force_->settings(), fresh.settings());
    const auto add = [&](const std::string& message, const std::string& located) {
        const auto named = std::ranges::find_if(
            held, [&](const Setting* setting) { return next.names(message, setting->name); });
        const bool needs = named != held.end();
        outcome.faults.push_back(needs ? needs_restart(**named, located) : located);
        outcome.restart_remedies_all =
            needs && (outcome.restart_remedies_all || outcome.faults.size() == 1);
    };
    for (const std::string& fault : next.faults()) add(fault, fault);
    if (!outcome.faults.empty()) return;
    for (const std::string& fault : apply(next.config())) add(fault, next.located(fault));
}

void log_outcome(const ReloadOutcome& outcome) {
    for (const std::string& fault : outcome.faults) spdlog::error("not reloaded: {}", fault);
    if (outcome.restart_remedies_all)
        return spdlog::error(
            "nothing was changed; check the settings with --check, and restart the gateway");
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
