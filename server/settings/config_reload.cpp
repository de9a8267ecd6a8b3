#include "server/settings/config_reload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <utility>

namespace pulsegate {

namespace {

SettingOrigin first_origin(const Setting& setting) {
    return setting.stated.empty() ? SettingOrigin{} : setting.stated.front().origin;
}

/// `idle-timeout = "20s" (pulsegate.toml:3)`
std::string described_change(const Setting& setting) {
    return fmt::format("{} ({})", setting.written_in_force(), first_origin(setting).text());
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

/// A changed setting in the message that keeps its value until a restart; null if there is none.
const Setting* held_back(const std::string& message, const Settings& before,
                         const ConfigReading& fresh) {
    for (std::size_t i = 0; i < before.all().size(); ++i) {
        const Setting& setting = fresh.settings().all()[i];
        if (setting.keeps(before.all()[i]) && fresh.names(message, setting.name)) return &setting;
    }
    return nullptr;
}

/// `fault` comes from this setting's value in force.
std::string needs_restart(const Setting& setting, const std::string& fault) {
    return first_origin(setting).located(
        fmt::format("{}: its new value needs a restart, and a reload with the value in force fails "
                    "({}); restart the gateway",
                    setting.name, fault.substr(0, fault.find("; "))));
}

/// All that is stated is right. So a fault that names a value in force concerns nothing that the
/// operator could correct.
void apply_if_right(const Settings& before, const ConfigReading& next, const ConfigReading& fresh,
                    const ConfigReload::Apply& apply, ReloadOutcome& outcome) {
    const auto add = [&](const std::string& message, const std::string& located) {
        const Setting* const held = held_back(message, before, fresh);
        outcome.faults.push_back(held ? needs_restart(*held, located) : located);
        const bool is_first = outcome.faults.size() == 1;
        outcome.restart_remedies_all = held && (is_first || outcome.restart_remedies_all);
    };
    for (const std::string& fault : next.faults()) add(fault, fault);
    if (!outcome.faults.empty()) return;
    for (const std::string& fault : apply(next.config())) add(fault, next.located(fault));
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
    if (outcome.faults.empty()) apply_if_right(in_force_->settings(), *next, fresh, apply, outcome);
    if (outcome.faults.empty())
        in_force_ = std::move(next);
    else
        outcome.applied.clear();
    return outcome;
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
