#include "loadgen/scenario/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

namespace pulsegate::load {

namespace {

std::string_view stripped(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// A comment begins with # at the start of a line or after a space.
std::string_view without_comment(std::string_view line) {
    for (auto at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1))
        if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') return line.substr(0, at);
    return line;
}

bool is_name(std::string_view text) {
    constexpr std::string_view letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    return !text.empty() && text.size() <= 40 &&
           text.find_first_not_of(letters) == std::string_view::npos;
}

std::string heading(std::string_view line, const std::string& where) {
    const auto name = line.starts_with("[group ") && line.ends_with(']')
                          ? stripped(line.substr(7, line.size() - 8))
                          : std::string_view();
    if (!is_name(name))
        throw std::runtime_error(fmt::format(
            "{}: '{}': write a heading such as [group phones], of letters, digits, - and _", where,
            line));
    return std::string(name);
}

/// How many letters must be changed, added or removed to turn one word into the other.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0]++;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
        }
    }
    return row.back();
}

}  // namespace

SettingsOfFile read_settings(std::string_view text, std::string_view file) {
    SettingsOfFile result;
    std::set<std::string, std::less<>> names;
    std::string group;
    for (unsigned number = 1; !text.empty(); ++number) {
        const auto end = text.find('\n');
        const auto line = stripped(without_comment(text.substr(0, end)));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.empty()) continue;

        const auto where = fmt::format("{}:{}", file, number);
        if (line.starts_with('[')) {
            group = heading(line, where);
            if (!names.insert(group).second)
                throw std::runtime_error(fmt::format(
                    "{}: there is a group '{}' already; choose another name", where, group));
            result.groups.push_back({where, number, group, {}, {}});
            continue;
        }
        const auto equals = line.find('=');
        const auto key = stripped(line.substr(0, equals));
        if (equals == std::string_view::npos || key.empty())
            throw std::runtime_error(fmt::format(
                "{}: '{}': write 'key = value', or a heading such as [group phones]", where, line));
        result.settings.push_back({fmt::format("{}: '{}'", where, key), number, group,
                                   std::string(key),
                                   std::string(stripped(line.substr(equals + 1)))});
    }
    return result;
}

Setting read_override(std::string_view text) {
    const auto equals = text.find('=');
    const auto name = stripped(text.substr(0, equals));
    if (equals == std::string_view::npos || name.empty())
        throw std::runtime_error(
            fmt::format("--set '{}': write key=value or group.key=value", text));
    Setting setting{fmt::format("--set {}", text), 0, {}, {}, {}};
    const auto dot = name.find('.');
    setting.group = dot == std::string_view::npos ? "" : name.substr(0, dot);
    setting.key = dot == std::string_view::npos ? name : name.substr(dot + 1);
    setting.value = stripped(text.substr(equals + 1));
    return setting;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known) {
    std::string_view nearest;
    std::size_t least = name.size() / 3 + 2;  // a larger distance means another word
    for (const auto candidate : known)
        if (const auto far = distance(name, candidate); far < least) {
            least = far;
            nearest = candidate;
        }
    return nearest.empty() ? std::string() : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace pulsegate::load
