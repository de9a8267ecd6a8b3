// Throws bytes at the readers of what a database or Redis has in its rows.

#include <algorithm>
#include <cstdint>
#include <string>

#include "server/store/mirror/mirrored_row.h"
#include "server/store/pages/stored_row.h"
#include "server/store/rows/row_codec.h"
#include "tests/fuzz/promise.h"

namespace {

using namespace pulsegate;

/// With the checksum in front that the list of receivers needs.
std::string with_checksum(Stamp stamp, std::string_view list) {
    const std::string stamp_bytes(1, static_cast<char>(stamp));
    const std::uint32_t sum = checksum({stamp_bytes, list});
    std::string bytes;
    for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(sum >> shift);
    return bytes.append(list);
}

void check_receivers(std::string_view list) {
    constexpr Stamp stamp = 7;
    const auto receivers = decode_receivers(stamp, with_checksum(stamp, list));
    require(receivers.has_value(), "receivers with the right checksum can be read");
    require(!decode_receivers(stamp + 1, with_checksum(stamp, list)),
            "receivers of another message are damaged");
    const bool ascend = std::ranges::adjacent_find(*receivers, std::ranges::greater_equal(),
                                                   &Receiver::owner) == receivers->end();
    if (!ascend) return;
    require(decode_receivers(stamp, encode_receivers(stamp, *receivers)) == receivers,
            "receivers come back as they were");
    require(merge_receivers(*receivers, *receivers) == *receivers,
            "a list of receivers that is merged with itself is the same");
}

void check_row(std::string_view bytes) {
    const auto row = decode_row(bytes);
    if (!row) return;
    const std::string again = encode_row(*row);
    require(again.size() <= bytes.size(), "a row has no shorter text than its own");
    const auto decoded = decode_row(again);
    require(decoded && encode_row(*decoded) == again, "a row comes back as it was");
}

void check_record(std::string_view bytes) {
    const auto values = read_record(bytes);
    require(!values || values->size() <= bytes.size(), "each value of a record has a type");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes = fuzzed_text(data, size);
    check_receivers(bytes);
    check_row(bytes);
    check_record(bytes);
    static_cast<void>(decode_receivers(7, bytes));
    const auto stamps = decode_stamps(bytes);
    require(decode_stamps(encode_stamps(stamps)) == stamps, "stamps come back as they were");
    return 0;
}
