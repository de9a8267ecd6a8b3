#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace pulsegate {

struct StoredText {
    std::string_view text;
};
struct StoredBytes {
    std::string_view bytes;
};
using StoredValue =
    std::variant<std::monostate, std::int64_t, double, StoredText, StoredBytes>;  ///< nothing: NULL

/// A row in the format of the database file. Texts and bytes are valid as long as the record is.
struct StoredRow {
    std::int64_t rowid = 0;
    bool is_sound = true;  ///< false: its page is damaged, so the row may be wrong
    std::vector<StoredValue> values{};
};

/// Takes numbers from arbitrary bytes. After the first short read, all numbers are 0.
class RecordReader {
public:
    explicit RecordReader(std::string_view bytes) : rest_(bytes) {}

    bool failed() const { return failed_; }
    std::size_t left() const { return rest_.size(); }
    std::string_view take(std::uint64_t size);
    std::uint64_t big_endian(std::size_t size);
    std::uint64_t varint();

private:
    std::string_view rest_;
    bool failed_ = false;
};

/// Reads a record (sqlite.org/fileformat.html, 2.1); nothing if it is not a record.
std::optional<std::vector<StoredValue>> read_record(std::string_view record);

}  // namespace pulsegate
