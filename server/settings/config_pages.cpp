#include "server/settings/config_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "server/settings/config_sources.h"

namespace pulsegate {

namespace {

constexpr std::size_t page_width = 100;

/// Lines of a text that is broken at blanks, each with something before it.
std::string wrapped(const std::string& text, std::string_view before) {
    std::istringstream words(text);
    std::string lines, line;
    for (std::string word; words >> word;) {
        if (!line.empty() && before.size() + line.size() + 1 + word.size() > page_width)
            lines += std::string(before) + std::exchange(line, "") + '\n';
        line += (line.empty() ? "" : " ") + word;
    }
    return lines + std::string(before) + line + '\n';
}

/// True if the default is a value, and not a sentence about it.
bool has_plain_default(const Setting& setting) {
    const std::string_view usual = setting.usual;
    return !usual.empty() && usual.find(' ') == usual.npos;
}

/// As it would be written with its default, or with the kind of value that it takes.
std::string example_of(const Setting& setting) {
    const std::string value = has_plain_default(setting) ? setting.usual : setting.type;
    return fmt::format("{} = {}", setting.name, setting.written({value}));
}

/// `DURATION; default: 30s; live`
std::string traits_of(const Setting& setting) {
    std::string traits = setting.type;
    if (setting.form == Setting::Form::list) traits += ", repeatable";
    if (*setting.usual) traits += fmt::format("; default: {}", setting.usual);
    if (*setting.liveness()) traits += fmt::format("; {}", setting.liveness());
    return traits;
}

/// The heading before the first setting of a group; "" before others.
std::string heading_before(const Setting& setting, std::string_view& group, std::string_view mark) {
    if (std::exchange(group, setting.group) == setting.group) return "";
    return fmt::format("\n{}{}\n\n", mark, setting.group);
}

std::string in_cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
    return text;
}

std::string as_code(const std::string& text) {
    return text.empty() ? "" : fmt::format("`{}`", in_cell(text));
}

std::string row_of(const Setting& setting) {
    const std::string usual =
        has_plain_default(setting) ? as_code(setting.usual) : in_cell(setting.usual);
    return fmt::format("| `{}` | {}{} | {} | {} | {} |\n", setting.name, as_code(setting.type),
                       setting.form == Setting::Form::list ? ", repeatable" : "", usual,
                       *setting.liveness() ? setting.liveness() : "restart", in_cell(setting.help));
}

/// Of what nobody has stated: the value in force if it says more than the default's text.
std::string default_in_force(const Setting& setting) {
    const auto values = setting.shown ? setting.shown() : std::vector<std::string>{};
    const bool says_more = !values.empty() && values.front() != "0" && values.front() != "0s" &&
                           !values.front().empty();
    if (has_plain_default(setting)) return fmt::format("# {}  # default\n", example_of(setting));
    if (!says_more)
        return fmt::format("# {}: {}\n", setting.name, *setting.usual ? setting.usual : "not set");
    return fmt::format("# {} = {}  # default{}{}\n", setting.name, setting.written(values),
                       *setting.usual ? ": " : "", setting.usual);
}

std::string line_in_force(const Setting& setting) {
    if (setting.stated.empty()) return default_in_force(setting);
    std::vector<std::string> values;
    values.reserve(setting.stated.size());
    for (const StatedValue& value : setting.stated) values.push_back(value.text);
    if (setting.form == Setting::Form::list && setting.shown) values = setting.shown();
    if (values.front().empty() && setting.form == Setting::Form::flag) values.front() = "true";
    return fmt::format("{} = {}  # {}\n", setting.name, setting.written(values),
                       setting.stated.front().origin.text());
}

}  // namespace

std::string sample_file(const Settings& settings) {
    std::string text = wrapped(
        "All settings of Pulsegate with their defaults, as comments. To change a setting, remove "
        "the # before it and write your value. Start the gateway with --config FILE. SIGHUP "
        "applies changes of live settings; changes of other settings need a restart. For a setting "
        "that is live while set, only adding the first value and removing the last one need a "
        "restart. DURATION: \"500ms\", \"30s\", \"5m\", \"24h\", \"7d\". SIZE: 65536, \"256KiB\", "
        "\"1MiB\", \"1GiB\". pulsegate --check --config FILE checks the file.",
        "# ");
    std::string_view group;
    for (const Setting& setting : settings.all()) {
        text += heading_before(setting, group, "## ");
        text += wrapped(setting.help, "# ") + wrapped(traits_of(setting), "# ");
        text += fmt::format("#{}\n\n", example_of(setting));
    }
    text.pop_back();
    return text;
}

std::string settings_page(const Settings& settings) {
    std::string text =
        "# All settings\n\n"
        "This page is generated from the table that `--help` uses. `pulsegate --print-reference`\n"
        "prints it, and `pulsegate --print-sample` prints a settings file with the same content.\n"
        "[How to write settings](operation.md#settings). The environment variable of a setting is\n"
        "`PULSEGATE_` and its name in capitals, with `_` for `-`. SIGHUP applies changes of live\n"
        "settings; changes of other settings need a restart. For a setting that is live while\n"
        "set, only adding the first value and removing the last one need a restart.\n";
    std::string_view group;
    for (const Setting& setting : settings.all()) {
        const std::string heading = heading_before(setting, group, "## ");
        if (!heading.empty())
            text += heading + "| setting | value | default | change | |\n|---|---|---|---|---|\n";
        text += row_of(setting);
    }
    return text;
}

std::string settings_in_force(const Settings& settings) {
    std::string text =
        "# The settings in force. Settings that are not set are comments with their defaults.\n";
    std::string_view group;
    for (const Setting& setting : settings.all()) {
        text += heading_before(setting, group, "## ");
        text += line_in_force(setting);
    }
    return text;
}

}  // namespace pulsegate
