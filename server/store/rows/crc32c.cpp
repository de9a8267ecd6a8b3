#include "server/store/rows/crc32c.h"

#include <array>
#include <boost/endian/conversion.hpp>
#include <cstddef>

namespace pulsegate {

namespace {

using CrcTable = std::array<std::uint32_t, 256>;

/// Table n has the checksum of each byte with n zero bytes after it.
constexpr std::array<CrcTable, 8> crc_tables = [] {
    constexpr std::uint32_t polynomial = 0x82F63B78;  // with the lowest bit first
    std::array<CrcTable, 8> tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t sum = byte;
        for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? polynomial : 0);
        tables[0][byte] = sum;
    }
    for (std::size_t zeros = 1; zeros < tables.size(); ++zeros)
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[zeros - 1][byte];
            tables[zeros][byte] = before >> 8 ^ tables[0][before & 0xff];
        }
    return tables;
}();

std::uint32_t after_eight_bytes(std::uint32_t state, const unsigned char* bytes) {
    const std::uint64_t word = boost::endian::load_little_u64(bytes) ^ state;
    std::uint32_t next = 0;
    for (unsigned place = 0; place < 8; ++place)
        next ^= crc_tables[7 - place][word >> 8 * place & 0xff];
    return next;
}

#ifdef __x86_64__
/// With the instruction that nearly every processor of this kind has.
__attribute__((target("sse4.2"))) std::uint32_t add_by_instruction(std::uint32_t state,
                                                                   std::string_view bytes) {
    const auto* next = reinterpret_cast<const unsigned char*>(bytes.data());
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, next += 8)
        state = static_cast<std::uint32_t>(
            __builtin_ia32_crc32di(state, boost::endian::load_little_u64(next)));
    for (; left > 0; --left, ++next) state = __builtin_ia32_crc32qi(state, *next);
    return state;
}

bool has_instruction() {
    static const bool has_it = __builtin_cpu_supports("sse4.2") != 0;
    return has_it;
}
#endif

}  // namespace

void Crc32c::add(std::string_view bytes) {
#ifdef __x86_64__
    if (has_instruction()) {
        state_ = add_by_instruction(state_, bytes);
        return;
    }
#endif
    add_by_tables(bytes);
}

void Crc32c::add_by_tables(std::string_view bytes) {
    const auto* next = reinterpret_cast<const unsigned char*>(bytes.data());
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, next += 8) state_ = after_eight_bytes(state_, next);
    for (; left > 0; --left, ++next) state_ = state_ >> 8 ^ crc_tables[0][(state_ ^ *next) & 0xff];
}

}  // namespace pulsegate
