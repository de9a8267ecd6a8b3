#include "server/settings/config_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace pulsegate {

namespace {

/// As it is written in the file without quotes.
bool is_bare(std::string_view text) {
    return text == "true" || text == "false" ||
           (!text.empty() && text.find_first_not_of("0123456789") == text.npos);
}

std::string quoted(const std::string& text) {
    if (text.find_first_of("\"\\") == text.npos) return '"' + text + '"';
    if (text.find('\'') == text.npos) return '\'' + text + '\'';
    std::string escaped = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') escaped += '\\';
        escaped += c;
    }
    return escaped + '"';
}

struct PrintedUnit {
    std::string_view name;
    std::uint64_t factor;
};

/// With the largest unit that leaves no remainder.
template <std::size_t N>
std::string in_units(std::uint64_t value, const PrintedUnit (&units)[N]) {
    const auto* const unit =
        std::find_if(std::begin(units), std::prev(std::end(units)),
                     [&](const PrintedUnit& one) { return value % one.factor == 0; });
    return fmt::format("{}{}", value / unit->factor, unit->name);
}

std::string duration_shown(Millis value) {
    static constexpr PrintedUnit units[] = {
        {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
    return value == 0 ? "0s" : in_units(static_cast<std::uint64_t>(value), units);
}

std::string size_shown(std::size_t value) {
    static constexpr PrintedUnit units[] = {
        {"GiB", 1024 * 1024 * 1024}, {"MiB", 1024 * 1024}, {"KiB", 1024}, {"", 1}};
    return value == 0 ? "0" : in_units(value, units);
}

bool parse_flag(const std::string& name, const std::string& text) {
    if (text == "true" || text == "on") return true;
    if (text == "false" || text == "off") return false;
    throw ConfigError(text.empty()
                          ? fmt::format("{0}: the value is empty; write {0} = true", name)
                          : fmt::format("{}: '{}' is unknown; choose true or false", name, text));
}

}  // namespace

std::string SettingOrigin::text() const {
    switch (kind) {
        case Kind::file: return fmt::format("{}:{}", name, line);
        case Kind::environment: return name;
        case Kind::command_line: return "command line";
        case Kind::nowhere: break;
    }
    return "default";
}

std::string SettingOrigin::located(const std::string& message) const {
    const bool is_told = kind == Kind::file || kind == Kind::environment;
    return is_told ? fmt::format("{}: {}", text(), message) : message;
}

std::string Setting::written(const std::vector<std::string>& texts) const {
    std::vector<std::string> values;
    values.reserve(texts.size());
    for (const std::string& each : texts) values.push_back(is_bare(each) ? each : quoted(each));
    if (form == Form::list) return fmt::format("[{}]", fmt::join(values, ", "));
    return values.empty() ? "\"\"" : values.front();
}

std::vector<std::string> Setting::values() const {
    if (shown) return shown();
    std::vector<std::string> texts;
    texts.reserve(stated.size());
    for (const StatedValue& value : stated) texts.push_back(value.text);
    return texts;
}

std::string Setting::written_in_force() const {
    const auto in_force = values();
    if (in_force.empty()) return name + " is not set";
    return fmt::format("{} = {}", name, written(in_force));
}

Setting& Settings::add(std::string name, Setting::Form form, const char* type, const char* usual,
                       const char* help, std::function<void(const std::string&)> take) {
    all_.push_back({.name = std::move(name),
                    .form = form,
                    .type = type,
                    .usual = usual,
                    .help = help,
                    .group = group_,
                    .take = std::move(take)});
    return all_.back();
}

/// A variable that is not set must not switch a protection off: there, as `--data "$DATA"`, the
/// value is empty, and as `--data $DATA` it is what comes next.
void Settings::require_value(const std::string& name, const char* type, const std::string& text) {
    if (text.find_first_not_of(" \t\r\n") == text.npos)
        throw ConfigError(
            fmt::format("{}: the value is empty; write {}, or leave the setting out", name, type));
    if (text.starts_with("--"))
        throw ConfigError(fmt::format("{}: the value is missing before {}", name, text));
}

std::vector<std::string> Settings::number_shown(std::uint64_t number) {
    return {std::to_string(number)};
}

Setting& Settings::flag(const char* name, bool& value, const char* help) {
    auto& setting = add(name, Setting::Form::flag, "true|false", "false", help,
                        [&value, name = std::string(name)](const std::string& stated) {
                            value = parse_flag(name, stated);
                        });
    setting.shown = [&value] { return std::vector<std::string>{value ? "true" : "false"}; };
    return setting;
}

Setting& Settings::duration(const char* name, Millis& value, Millis least, Millis most,
                            const char* usual, const char* help) {
    auto& setting =
        any(name, "DURATION", usual, help, [&value, least, most](auto& named, auto& stated) {
            value = parse_duration(named, stated, least, most);
        });
    setting.shown = [&value] { return std::vector<std::string>{duration_shown(value)}; };
    return setting;
}

Setting& Settings::size(const char* name, std::size_t& value, std::size_t least, std::size_t most,
                        const char* usual, const char* help) {
    auto& setting =
        any(name, "SIZE", usual, help, [&value, least, most](auto& named, auto& stated) {
            value = parse_size(named, stated, least, most);
        });
    setting.shown = [&value] { return std::vector<std::string>{size_shown(value)}; };
    return setting;
}

Setting& Settings::on_off(const char* name, bool& value, const char* help) {
    auto& setting =
        any(name, "on|off", value ? "on" : "off", help,
            [&value](auto& named, auto& stated) { value = parse_switch(named, stated); });
    setting.shown = [&value] { return std::vector<std::string>{value ? "on" : "off"}; };
    return setting;
}

Setting* Settings::find(std::string_view name) {
    const auto found = std::ranges::find(all_, name, &Setting::name);
    return found == all_.end() ? nullptr : &*found;
}

const Setting* Settings::find(std::string_view name) const {
    return const_cast<Settings*>(this)->find(name);
}

}  // namespace pulsegate
