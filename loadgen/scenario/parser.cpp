#include "loadgen/scenario/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "loadgen/scenario/builtin.h"
#include "loadgen/scenario/draft.h"
#include "loadgen/scenario/keys.h"

namespace pulsegate::load {

namespace {

constexpr std::size_t largest_file = 1 << 20;
constexpr std::size_t most_groups = 1000;

template <class Keys>
auto key_named(const Keys& keys, std::string_view name) {
    return std::ranges::find(keys, name, [](const auto& key) { return key.name; });
}

/// Calls `apply`. If it throws `std::invalid_argument`, the error names the setting.
template <class Apply>
void apply_named(const Setting& setting, Apply apply) {
    try {
        apply();
    } catch (const std::invalid_argument& remedy) {
        const bool from_file = setting.line > 0;
        throw std::runtime_error(
            from_file && !setting.value.empty()
                ? fmt::format("{}: {}, not '{}'", setting.where, remedy.what(), setting.value)
                : fmt::format("{}: {}", setting.where, remedy.what()));
    }
}

[[noreturn]] void refuse_key(const Setting& setting) {
    std::vector<std::string_view> known;
    if (setting.group.empty())
        for (const auto& key : scenario_keys()) known.push_back(key.name);
    else
        known.push_back("clients");
    for (const auto& key : group_keys()) known.push_back(key.name);
    const bool of_scenario =
        !setting.group.empty() && key_named(scenario_keys(), setting.key) != scenario_keys().end();
    throw std::runtime_error(
        of_scenario
            ? fmt::format("{}: this is a key of the scenario, not of a group; write it above the "
                          "first group",
                          setting.where)
            : fmt::format("{}: no such key{}", setting.where, did_you_mean(setting.key, known)));
}

void apply_to_group(GroupDraft& draft, const Setting& setting) {
    draft.where[setting.key] = setting.where;
    if (setting.key == "clients") {
        return apply_named(setting, [&] { draft.clients = parse_share(setting.value); });
    }
    const auto key = key_named(group_keys(), setting.key);
    if (key == group_keys().end()) refuse_key(setting);
    apply_named(setting, [&] { key->apply(draft, setting.value); });
}

/// Applies a setting of the whole scenario, or the default of each group.
void apply_to_all(ScenarioDraft& draft, const Setting& setting) {
    draft.where[setting.key] = setting.where;
    const auto key = key_named(scenario_keys(), setting.key);
    if (key != scenario_keys().end())
        return apply_named(setting, [&] { key->apply(draft, setting.value); });
    apply_to_group(draft.defaults, setting);
}

GroupDraft& group_named(ScenarioDraft& draft, const Setting& setting) {
    for (GroupDraft& group : draft.groups)
        if (group.group.name == setting.group) return group;
    std::vector<std::string_view> names;
    for (const GroupDraft& group : draft.groups) names.push_back(group.group.name);
    throw std::runtime_error(fmt::format("{}: there is no group '{}'{}", setting.where,
                                         setting.group, did_you_mean(setting.group, names)));
}

/// The scenario's rates are divided among the groups, so no group may take a whole rate as its own.
void forget_shared_rates(GroupDraft& group) {
    group.messages.reset();
    group.ramp.reset();
    group.network_changes.reset();
}

bool is_shared_rate(std::string_view key) {
    return key == "messages" || key == "ramp" || key == "network-changes";
}

void override_everywhere(ScenarioDraft& draft, const Setting& setting) {
    apply_to_all(draft, setting);
    if (key_named(scenario_keys(), setting.key) != scenario_keys().end()) return;
    for (GroupDraft& group : draft.groups) {
        if (!is_shared_rate(setting.key)) {
            apply_to_group(group, setting);
            continue;
        }
        if (setting.key == "messages") group.messages.reset();
        if (setting.key == "ramp") group.ramp.reset();
        if (setting.key == "network-changes") group.network_changes.reset();
    }
}

void override_of_group(GroupDraft& draft, const Setting& setting) {
    apply_to_group(draft, setting);
    if (setting.key == "clients") draft.clients_overridden = true;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

[[noreturn]] void refuse_scenario(const std::string& name) {
    std::string all;
    std::vector<std::string_view> names;
    for (const auto& scenario : builtin_scenarios()) {
        all += (names.empty() ? "" : ", ") + std::string(scenario.name);
        names.push_back(scenario.name);
    }
    throw std::runtime_error(fmt::format("no scenario '{}': name a readable file, or one of {}{}",
                                         name, all, did_you_mean(name, names)));
}

}  // namespace

ScenarioText find_scenario(const std::string& name_or_file) {
    for (const auto& scenario : builtin_scenarios())
        if (scenario.name == name_or_file)
            return {name_or_file, name_or_file + ".scenario", std::string(scenario.text), true};

    std::ifstream file(name_or_file);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open() || file.bad()) refuse_scenario(name_or_file);
    if (text.size() > largest_file)
        throw std::runtime_error(fmt::format(
            "{}: more than a megabyte is not a scenario; name another file", name_or_file));
    auto name = file_name(name_or_file);
    if (name.ends_with(".scenario")) name.resize(name.size() - 9);
    return {name, name_or_file, std::move(text), false};
}

Scenario parse_scenario(const ScenarioText& text, const std::vector<Setting>& overrides,
                        double scale) {
    const auto file = read_settings(text.text, text.file);
    if (file.groups.size() > most_groups)
        throw std::runtime_error(
            fmt::format("{}: more than {} groups; make groups of those that behave alike",
                        text.file, most_groups));
    ScenarioDraft draft;
    draft.scenario.name = text.name;
    draft.defaults.group.to_what = Group::To::clients;
    for (const Setting& setting : file.settings)
        if (setting.group.empty()) apply_to_all(draft, setting);
    for (const Setting& heading : file.groups) {
        GroupDraft& group = draft.groups.emplace_back(draft.defaults);
        group.group.name = heading.group;
        group.group.line = heading.line;
        group.where.clear();
        forget_shared_rates(group);
    }
    for (const Setting& setting : file.settings)
        if (!setting.group.empty()) apply_to_group(group_named(draft, setting), setting);
    draft.clients_written = draft.clients;
    for (const Setting& setting : overrides)
        setting.group.empty() ? override_everywhere(draft, setting)
                              : override_of_group(group_named(draft, setting), setting);
    return complete(std::move(draft), scale);
}

}  // namespace pulsegate::load
