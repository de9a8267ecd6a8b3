#include "protocol/utf8.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pulsegate {

namespace {

constexpr std::uint64_t ones = 0x0101010101010101;
constexpr std::uint64_t high_bits = 0x8080808080808080;

std::uint64_t block_at(const char* at) {
    std::uint64_t block;
    std::memcpy(&block, at, sizeof block);
    return block;
}

/// Eight bytes that are all ASCII and none of them zero, as nearly all of a chat's text is.
bool plain_block(const char* at) {
    const std::uint64_t block = block_at(at);
    // Subtracting one sets the high bit of a zero byte; a borrow only ever adds a false alarm.
    return ((block | (block - ones)) & high_bits) == 0;
}

/// Eight bytes from the space to the tilde.
bool visible_block(const char* at) {
    const std::uint64_t block = block_at(at);
    // As above: what is below a space borrows, and what is above a tilde carries.
    return ((block | (block - ones * ' ') | (block + ones)) & high_bits) == 0;
}

/// The length of the well-formed character at `at`, or 0 (Unicode 15, table 3-7, without U+0000).
std::size_t character(const unsigned char* at, std::size_t left) {
    const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
        return at[i] >= low && at[i] <= high;
    };
    const unsigned lead = at[0];
    if (lead < 0x80) return lead != 0 ? 1 : 0;
    if (lead < 0xC2) return 0;  // a stray continuation, or an overlong form of ASCII
    if (lead < 0xE0) return left >= 2 && continues(1) ? 2 : 0;
    if (lead < 0xF0) {
        const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;   // overlong below
        const unsigned high = lead == 0xED ? 0x9F : 0xBF;  // surrogates above
        return left >= 3 && continues(1, low, high) && continues(2) ? 3 : 0;
    }
    if (lead > 0xF4) return 0;
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;   // overlong below
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;  // past U+10FFFF above
    return left >= 4 && continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
}

}  // namespace

bool valid_utf8(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        if (end - at >= 8 && plain_block(at)) {
            at += 8;
            continue;
        }
        const std::size_t size = character(reinterpret_cast<const unsigned char*>(at),
                                           static_cast<std::size_t>(end - at));
        if (size == 0) return false;
        at += size;
    }
    return true;
}

bool has_control_character(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        if (end - at >= 8 && visible_block(at)) {
            at += 8;
            continue;
        }
        const auto byte = static_cast<unsigned char>(*at++);
        if (byte < ' ' || byte == 0x7F) return true;
        // U+0080 to U+009F.
        if (byte == 0xC2 && at != end && static_cast<unsigned char>(*at) < 0xA0) return true;
    }
    return false;
}

Character first_character(std::string_view text) {
    if (text.empty()) return {0, 0};
    const auto* at = reinterpret_cast<const unsigned char*>(text.data());
    const std::size_t size = character(at, text.size());
    if (size == 0) return {0, 0};
    if (size == 1) return {at[0], 1};
    // The lead byte has as many ones in front as there are bytes, and a zero.
    char32_t code = at[0] & (0x7Fu >> size);
    for (std::size_t i = 1; i < size; ++i) code = code << 6 | (at[i] & 0x3Fu);
    return {code, size};
}

std::string_view first_characters(std::string_view text, std::size_t most) {
    if (text.size() <= most) return text;
    const auto continues = [&](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    };
    constexpr std::size_t longest_character = 4;
    std::size_t end = most;
    while (end > 0 && most - end < longest_character && continues(end)) --end;
    return text.substr(0, end);
}

}  // namespace pulsegate
