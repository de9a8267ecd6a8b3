#include "server/store/pages/stored_row.h"

#include <bit>

namespace pulsegate {

std::string_view RecordReader::take(std::uint64_t size) {
    if (size > rest_.size()) {
        failed_ = true;
        rest_ = {};
        return {};
    }
    const auto taken = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
}

std::uint64_t RecordReader::big_endian(std::size_t size) {
    std::uint64_t value = 0;
    for (const char each : take(size)) value = value << 8 | static_cast<unsigned char>(each);
    return value;
}

std::uint64_t RecordReader::varint() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
        const std::uint64_t byte = big_endian(1);
        value = value << 7 | (byte & 0x7f);
        if (byte < 0x80) return value;
    }
    return value << 8 | big_endian(1);
}

namespace {

std::int64_t signed_number(RecordReader& body, std::size_t size) {
    const std::size_t unused = 64 - 8 * size;
    return static_cast<std::int64_t>(body.big_endian(size) << unused) >> unused;
}

StoredValue read_value(std::uint64_t type, RecordReader& body) {
    constexpr std::size_t number_sizes[] = {0, 1, 2, 3, 4, 6, 8};
    if (type == 0) return {};
    if (type <= 6) return signed_number(body, number_sizes[type]);
    if (type == 7) return std::bit_cast<double>(body.big_endian(8));
    if (type <= 9) return static_cast<std::int64_t>(type - 8);
    if (type % 2 == 0) return StoredBytes{body.take((type - 12) / 2)};
    return StoredText{body.take((type - 13) / 2)};
}

}  // namespace

std::optional<std::vector<StoredValue>> read_record(std::string_view record) {
    RecordReader header(record);
    const std::uint64_t header_size = header.varint();
    const std::size_t taken = record.size() - header.left();
    if (header.failed() || header_size < taken || header_size > record.size()) return std::nullopt;
    RecordReader types(record.substr(taken, static_cast<std::size_t>(header_size) - taken));
    RecordReader body(record.substr(static_cast<std::size_t>(header_size)));
    std::vector<StoredValue> values;
    while (types.left() > 0) {
        const std::uint64_t type = types.varint();
        if (type == 10 || type == 11) return std::nullopt;  // SQLite's own, and never in a file
        values.push_back(read_value(type, body));
    }
    if (types.failed() || body.failed()) return std::nullopt;
    return values;
}

}  // namespace pulsegate
