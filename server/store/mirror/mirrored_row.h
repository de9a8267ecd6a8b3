#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// A column of a row, as SQLite has it. It does not own the bytes.
struct ColumnValue {
    enum class Type : std::uint8_t { null, integer, text, blob };

    Type type = Type::null;
    std::int64_t integer = 0;
    std::string_view bytes{};
};
using RowValues = std::vector<ColumnValue>;

/// A row as one text: a byte with the format, then each column with its type.
std::string encode_row(std::span<const ColumnValue> columns);

/// The columns view `row`. Nothing if the row is damaged or has another format.
std::optional<RowValues> decode_row(std::string_view row);

/// The columns of the primary key as one text that is readable in redis-cli: numbers and texts one
/// after the other, each except the last with an end mark.
std::string field_of(std::span<const ColumnValue> columns, std::span<const int> key);

}  // namespace pulsegate
