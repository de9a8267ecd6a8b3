#include "server/store/mirror/mirrored_row.h"

#include <fmt/format.h>

#include <iterator>

#include "server/store/rows/numbers.h"

namespace pulsegate {

namespace {

constexpr char row_format = 1;

/// Small numbers, negative ones too, have few bytes.
constexpr std::uint64_t zigzag(std::int64_t number) {
    return static_cast<std::uint64_t>(number) << 1 ^ static_cast<std::uint64_t>(number >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t number) {
    return static_cast<std::int64_t>(number >> 1 ^ (~(number & 1) + 1));
}

std::optional<ColumnValue> take_column(std::string_view& left) {
    const auto type = static_cast<ColumnValue::Type>(left.front());
    left.remove_prefix(1);
    if (type == ColumnValue::Type::null) return ColumnValue{};
    if (type > ColumnValue::Type::blob) return std::nullopt;
    const auto number = take_number(left);
    if (!number) return std::nullopt;
    if (type == ColumnValue::Type::integer) return ColumnValue{type, unzigzag(*number), {}};
    if (*number > left.size()) return std::nullopt;
    const ColumnValue column{type, 0, left.substr(0, *number)};
    left.remove_prefix(*number);
    return column;
}

}  // namespace

std::string encode_row(std::span<const ColumnValue> columns) {
    std::string row(1, row_format);
    for (const ColumnValue& column : columns) {
        row += static_cast<char>(column.type);
        if (column.type == ColumnValue::Type::null) continue;
        const bool is_integer = column.type == ColumnValue::Type::integer;
        append_number(row, is_integer ? zigzag(column.integer) : column.bytes.size());
        row += column.bytes;
    }
    return row;
}

std::optional<RowValues> decode_row(std::string_view row) {
    if (row.empty() || row.front() != row_format) return std::nullopt;
    row.remove_prefix(1);
    RowValues columns;
    while (!row.empty()) {
        const auto column = take_column(row);
        if (!column) return std::nullopt;
        columns.push_back(*column);
    }
    return columns;
}

std::string field_of(std::span<const ColumnValue> columns, std::span<const int> key) {
    std::string field;
    for (const int place : key) {
        const ColumnValue& column = columns[static_cast<std::size_t>(place)];
        const bool is_last = place == key.back();
        const bool is_integer = column.type == ColumnValue::Type::integer;
        if (is_integer)
            fmt::format_to(std::back_inserter(field), "{}", column.integer);
        else if (is_last)
            field += column.bytes;
        else
            fmt::format_to(std::back_inserter(field), "{} {}", column.bytes.size(), column.bytes);
        if (!is_last) field += ' ';
    }
    return field;
}

}  // namespace pulsegate
