// The settings file as a source of settings.
#include "server/settings/config_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "server/base/files/whole_file.h"
#include "server/base/text/did_you_mean.h"
#include "server/settings/toml/config_file.h"

namespace pulsegate {

namespace {

std::vector<std::string> names_of(const Settings& settings) {
    std::vector<std::string> names;
    names.reserve(settings.all().size());
    for (const Setting& setting : settings.all()) names.push_back(setting.name);
    return names;
}

std::string meant_by(const Settings& settings, const std::string& name) {
    return settings.find(name) ? name : nearest_name(name, names_of(settings));
}

/// A setting of the file. A list may be named in several lines; all else in one.
void take_line(const Settings& settings, const FileLine& line, const std::string& path,
               Statements& statements, const SettingFault& fault) {
    const SettingOrigin here{SettingOrigin::Kind::file, path, line.line};
    const Setting* const setting = settings.find(line.name);
    if (!setting)
        return fault(here, fmt::format("unknown setting '{}'{}", line.name,
                                       remedy_for_unknown(settings, line.name,
                                                          [](auto& name) { return name; })));
    auto& values = statements[line.name];
    const bool is_list = setting->form == Setting::Form::list;
    if (!is_list && !values.empty())
        return fault(here, fmt::format("{}: line {} sets it already; remove one of the lines",
                                       line.name, values.front().origin.line));
    if (!is_list && line.values.size() > 1)
        return fault(here, fmt::format("{0}: it takes one value, not a list; write {0} = {1}",
                                       line.name, setting->written({line.values.front().text})));
    for (const auto& [text, number] : line.values)
        values.push_back({text, {SettingOrigin::Kind::file, path, number}});
}

}  // namespace

std::string remedy_for_unknown(const Settings& settings, const std::string& name,
                               const std::function<std::string(const std::string&)>& as_written) {
    const std::string near = nearest_name(name, names_of(settings));
    if (near.empty()) return "; --help lists the settings";
    return fmt::format("; did you mean {}?", as_written(near));
}

Statements read_config_file(const Settings& settings, const std::string& path,
                            const SettingFault& fault) {
    Statements statements;
    std::string text;
    try {
        text = read_whole_file("config", path).text;
    } catch (const std::runtime_error& error) {
        fault({}, error.what());
        return statements;
    }
    const auto lines = read_settings_file(
        text,
        [&](std::size_t line, const std::string& what) {
            fault({SettingOrigin::Kind::file, path, line}, what);
        },
        [&](const std::string& name) { return meant_by(settings, name); },
        [&](const std::string& name) {
            const Setting* const setting = settings.find(name);
            return setting && std::string_view(setting->type) == "N";
        });
    for (const FileLine& line : lines) take_line(settings, line, path, statements, fault);
    return statements;
}

}  // namespace pulsegate
