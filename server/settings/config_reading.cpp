#include "server/settings/config_reading.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "server/base/machine.h"

namespace pulsegate {

namespace {

/// Of several values the one that the message is about: it names that one first.
const SettingOrigin& origin_in(const std::string& message, const Setting& setting) {
    const auto place = [&](const StatedValue& value) {
        return value.text.empty() ? message.npos : message.find(value.text);
    };
    return std::ranges::min_element(setting.stated, {}, place)->origin;
}

}  // namespace

ConfigReading::ConfigReading(int argc, const char* const* argv, const char* const* environment) {
    begin();
    const auto fault = [this](const SettingOrigin& origin, const std::string& what) {
        found_.push_back({origin, what});
    };
    std::string file;
    const auto variables = read_environment(settings_, environment, file, fault);
    const CommandLine line = read_command_line(settings_, argc, argv, fault);
    is_check_ = line.check;
    prints_config_ = line.print_config;
    if (!line.config_file.empty()) file = line.config_file;
    if (!file.empty()) take(read_config_file(settings_, file, fault));
    take(variables);
    take(line.settings);
    finish();
}

ConfigReading::ConfigReading(const ConfigReading& in_force, const ConfigReading& fresh) {
    begin();
    for (std::size_t i = 0; i < settings_.all().size(); ++i) {
        Setting& setting = settings_.all()[i];
        const Setting& before = in_force.settings().all()[i];
        const Setting& now = fresh.settings().all()[i];
        const bool is_kept = now.keeps(before);
        auto stated = (is_kept ? before : now).stated;
        for (StatedValue& value : stated)
            if (is_kept) value.origin = {};  // it is stated there no more
        take(setting, std::move(stated));
    }
    finish();
}

void ConfigReading::begin() {
    config_.shards = std::min(available_processors(), most_shards);
    leave_shares_open(config_);
    add_settings(settings_, config_);
}

void ConfigReading::finish() {
    complete(config_, [this](const std::function<void()>& step) {
        try {
            step();
        } catch (const ConfigError& error) {
            if (!follows(error.what())) found_.push_back({{}, located(error.what())});
        }
    });
}

void ConfigReading::take(const Statements& statements) {
    for (Setting& setting : settings_.all()) {
        const auto found = statements.find(setting.name);
        if (found != statements.end()) take(setting, found->second);
    }
}

/// In the place of what another source has stated.
void ConfigReading::take(Setting& setting, const std::vector<StatedValue>& values) {
    if (setting.clear) setting.clear();
    setting.stated = values;
    for (const auto& [text, origin] : values) {
        try {
            setting.take(text);
        } catch (const ConfigError& error) {
            found_.push_back({origin, error.what()});
            wrong_.insert(&setting);
        }
    }
}

std::vector<std::string> ConfigReading::faults() const {
    auto found = found_;
    std::ranges::stable_sort(found, {}, [](const Found& each) {
        const bool is_line = each.origin.kind == SettingOrigin::Kind::file;
        return std::make_tuple(is_line, each.origin.line);
    });
    std::vector<std::string> texts;
    texts.reserve(found.size());
    for (const auto& [origin, what] : found) texts.push_back(origin.located(what));
    return texts;
}

/// Names of settings, in the message's order. A word that is a name too may mean the word; the
/// message begins with a name, and others have dashes.
std::vector<const Setting*> ConfigReading::named_in(const std::string& message) const {
    constexpr const char* of_names = "abcdefghijklmnopqrstuvwxyz-";
    std::vector<const Setting*> named;
    for (std::size_t at = 0; (at = message.find_first_of(of_names, at)) != message.npos;) {
        const auto end = std::min(message.find_first_not_of(of_names, at), message.size());
        std::string_view word = std::string_view(message).substr(at, end - at);
        const bool may_be_name = at == 0 || word.find('-') != word.npos;
        word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
        at = end;
        if (const auto* setting = settings_.find(word); setting && may_be_name)
            named.push_back(setting);
    }
    return named;
}

bool ConfigReading::follows(const std::string& message) const {
    return std::ranges::any_of(named_in(message),
                               [this](const Setting* setting) { return wrong_.contains(setting); });
}

bool ConfigReading::names(const std::string& message, const std::string& setting) const {
    return std::ranges::count(named_in(message), setting, &Setting::name) > 0;
}

std::string ConfigReading::located(const std::string& message) const {
    for (const Setting* setting : named_in(message))
        if (!setting->stated.empty()) return origin_in(message, *setting).located(message);
    for (const Setting& setting : settings_.all())  // some name the file alone
        if (std::string_view(setting.type) == "FILE")
            for (const auto& [text, origin] : setting.stated)
                if (!text.empty() && message.find(text) != message.npos)
                    return origin.located(message);
    return message;
}

Config parse_config(int argc, const char* const* argv, const char* const* environment) {
    const ConfigReading reading(argc, argv, environment);
    const auto faults = reading.faults();
    if (!faults.empty()) throw ConfigError(faults.front());
    return reading.config();
}

}  // namespace pulsegate
