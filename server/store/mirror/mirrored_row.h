#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// A column of a row, as SQLite has it. The bytes lie elsewhere.
struct ColumnValue {
    enum class Type : std::uint8_t { null, integer, text, blob };

    Type type = Type::null;
    std::int64_t integer = 0;
    std::string_view bytes{};
};
using RowValues = std::vector<ColumnValue>;

/// A row as one text: a byte with the format, then each column with its type.
std::string encode_row(std::span<const ColumnValue> columns);

/// The columns lie in `row`. Nothing: it is of another format, or damaged.
std::optional<RowValues> decode_row(std::string_view row);

/// The columns of the primary key as one text, which can be read in redis-cli: numbers and texts
/// one after the other, all but the last one with a mark of their ends.
std::string field_of(std::span<const ColumnValue> columns, std::span<const int> key);

}  // namespace pulsegate
