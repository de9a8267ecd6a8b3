#include "server/store/rows/crc32c.h"

#include <doctest/doctest.h>

#include <boost/crc.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

using namespace pulsegate;

namespace {

std::uint32_t byte_by_byte(std::string_view text) {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
    sum.process_bytes(text.data(), text.size());
    return sum.checksum();
}

}  // namespace

TEST_CASE(
    "CRC-32C is that of one byte at a time, by instruction and by tables, wherever texts end") {
    std::mt19937 random(7);
    std::string text;
    for (std::size_t size = 0; size < 100; ++size, text += static_cast<char>(random())) {
        const std::size_t cut = size == 0 ? 0 : random() % size;
        Crc32c sum;
        sum.add(std::string_view(text).substr(0, cut));
        sum.add(std::string_view(text).substr(cut));
        CHECK(sum.value() == byte_by_byte(text));
        Crc32c by_tables;
        by_tables.add_by_tables(std::string_view(text).substr(0, cut));
        by_tables.add_by_tables(std::string_view(text).substr(cut));
        CHECK(by_tables.value() == byte_by_byte(text));
    }
}
