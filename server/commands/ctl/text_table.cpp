#include "server/commands/ctl/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <cstddef>
#include <vector>

#include "server/base/text/json_text.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

/// About how many characters of UTF-8 a terminal shows: all bytes except continuation bytes.
std::size_t shown_width(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char each) { return (each & 0xC0) != 0x80; }));
}

struct Column {
    std::vector<std::string> cells{};
    std::size_t width = 0;
    bool is_empty = true;
};

Column column_of(const json::array& rows, const TableColumn& asked) {
    Column column;
    column.cells.reserve(rows.size() + 1);
    column.cells.emplace_back(asked.title);
    for (const json::value& row : rows) {
        column.cells.push_back(plain_text(member_at(row, asked.member)));
        column.is_empty &= column.cells.back().empty();
    }
    for (const std::string& cell : column.cells)
        column.width = std::max(column.width, shown_width(cell));
    return column;
}

}  // namespace

std::string text_table(const json::array& rows, std::initializer_list<TableColumn> columns) {
    std::vector<Column> filled;
    filled.reserve(columns.size());
    for (const TableColumn& each : columns)
        if (Column column = column_of(rows, each); !column.is_empty)
            filled.push_back(std::move(column));
    std::string text;
    for (std::size_t line = 0; line <= rows.size() && !filled.empty(); ++line) {
        for (const Column& column : filled) {
            const std::string& cell = column.cells[line];
            text += cell;
            if (&column != &filled.back()) text.append(column.width - shown_width(cell) + 2, ' ');
        }
        while (text.ends_with(' ')) text.pop_back();
        text += '\n';
    }
    return text;
}

std::string plain_text(const json::value& value) {
    if (value.is_null()) return {};
    if (const auto* const flag = value.if_bool()) return *flag ? "yes" : "no";
    if (!value.is_string()) return json_text(value);
    std::string text(value.get_string());
    for (char& each : text)
        if (static_cast<unsigned char>(each) < ' ' || each == '\x7f') each = '?';
    return text;
}

const json::value& member_at(const json::value& object, std::string_view path) {
    static const json::value nothing;
    const json::value* at = &object;
    while (!path.empty()) {
        const auto dot = path.find('.');
        const auto* const inside = at->if_object();
        const auto* const found = inside ? inside->if_contains(path.substr(0, dot)) : nullptr;
        if (!found) return nothing;
        at = found;
        path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
    }
    return *at;
}

std::int64_t number_at(const json::value& object, std::string_view path) {
    const json::value& found = member_at(object, path);
    return found.is_number() ? found.to_number<std::int64_t>() : 0;
}

std::string grouped(std::int64_t number) {
    std::string digits = std::to_string(number);
    const std::size_t first = digits.starts_with('-') ? 1 : 0;
    for (auto at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
    return digits;
}

std::string size_text(std::int64_t bytes) {
    constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto size = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; size >= 1024 && unit + 1 < units.size(); ++unit) size /= 1024;
    return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", size, units[unit]);
}

std::string span_text(std::int64_t seconds) {
    constexpr std::int64_t minute = 60;
    constexpr std::int64_t hour = 60 * minute;
    constexpr std::int64_t day = 24 * hour;
    if (seconds < minute) return fmt::format("{} s", seconds);
    if (seconds < hour) return fmt::format("{} min {} s", seconds / minute, seconds % minute);
    if (seconds < day) return fmt::format("{} h {} min", seconds / hour, seconds % hour / minute);
    return fmt::format("{} d {} h", seconds / day, seconds % day / hour);
}

}  // namespace pulsegate
