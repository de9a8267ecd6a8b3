// The environment as a source of settings.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "server/settings/config_sources.h"

namespace pulsegate {

namespace {

constexpr std::string_view variable_prefix = "PULSEGATE_";

/// Kubernetes tells each pod of the services beside it: for one that is named pulsegate, by
/// PULSEGATE_PORT, PULSEGATE_SERVICE_HOST, PULSEGATE_PORT_1883_TCP_ADDR.
bool is_of_kubernetes(std::string_view name) {
    if (name.find("_SERVICE_HOST") != name.npos || name.find("_SERVICE_PORT") != name.npos)
        return true;
    if (name.ends_with("_PORT")) return true;
    const auto port = name.find("_PORT_");
    return port != name.npos && name.find_first_of("0123456789", port) == port + 6;
}

/// Variables of this program itself, and of its tests.
bool is_no_setting(std::string_view name) {
    constexpr std::string_view known[] = {"PULSEGATE_BUILD_DIR",      "PULSEGATE_GOES_ON",
                                          "PULSEGATE_HANDOVER",       "PULSEGATE_LONG",
                                          "PULSEGATE_LEDGER_CRASHES", "PULSEGATE_BROKER_CRASHES",
                                          "PULSEGATE_ORDER_PLAYS"};
    return std::ranges::count(known, name) > 0 || is_of_kubernetes(name);
}

/// Divided by blanks, as a shell divides words.
std::vector<std::string> words_of(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    if (words.empty()) words.emplace_back();
    return words;
}

}  // namespace

std::string variable_of(const std::string& setting) {
    std::string name(variable_prefix);
    for (const char c : setting)
        name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

Statements read_environment(const Settings& settings, const char* const* environment,
                            std::string& config_file, const SettingFault& fault) {
    Statements statements;
    for (; environment && *environment; ++environment) {
        const std::string_view variable = *environment;
        const std::string name(variable.substr(0, variable.find('=')));
        if (!name.starts_with(variable_prefix) || is_no_setting(name)) continue;
        const std::string text(variable.substr(std::min(name.size() + 1, variable.size())));
        const SettingOrigin here{SettingOrigin::Kind::environment, name};
        const auto setting = std::ranges::find_if(
            settings.all(), [&](const Setting& each) { return variable_of(each.name) == name; });
        if (setting != settings.all().end()) {
            const bool is_list = setting->form == Setting::Form::list;
            for (const std::string& value : is_list ? words_of(text) : std::vector{text})
                statements[setting->name].push_back({value, here});
        } else if (name != variable_of("config")) {
            fault(here, "unknown setting" + remedy_for_unknown(settings,
                                                               name.substr(variable_prefix.size()),
                                                               variable_of));
        } else if (text.empty()) {
            fault(here, "the value is empty; write FILE, or remove the variable");
        } else {
            config_file = text;
        }
    }
    return statements;
}

}  // namespace pulsegate
