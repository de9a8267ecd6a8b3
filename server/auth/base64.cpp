#include "server/auth/base64.h"

#include <cstdint>

namespace pulsegate {

namespace {

constexpr std::string_view letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The six bits that a character stands for, or -1.
int six_bits(char c, std::string_view last_two) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == last_two[0]) return 62;
    if (c == last_two[1]) return 63;
    return -1;
}

std::optional<std::string> decode(std::string_view text, std::string_view last_two) {
    if (text.size() % 4 == 1) return std::nullopt;
    std::string bytes;
    bytes.reserve(text.size() * 3 / 4);
    std::uint32_t held = 0;
    int held_bits = 0;
    for (const char c : text) {
        const int six = six_bits(c, last_two);
        if (six < 0) return std::nullopt;
        held = (held << 6 | static_cast<std::uint32_t>(six)) & 0xFFFF;
        held_bits += 6;
        if (held_bits < 8) continue;
        held_bits -= 8;
        bytes += static_cast<char>(held >> held_bits & 0xFF);
    }
    // Unused bits must be zero: two texts must not decode to the same bytes.
    if ((held & ((1u << held_bits) - 1)) != 0) return std::nullopt;
    return bytes;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    const auto letter = [](std::uint32_t six) {
        return six < letters.size() ? letters[six] : six == 62 ? '+' : '/';
    };
    for (; !bytes.empty(); bytes.remove_prefix(bytes.size() < 3 ? bytes.size() : 3)) {
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0);
        for (std::size_t i = 0; i < 4; ++i)
            text += i <= bytes.size() ? letter(group >> (18 - 6 * i) & 0x3F) : '=';
    }
    return text;
}

std::optional<std::string> from_base64(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
    return decode(text, "+/");
}

std::optional<std::string> from_base64url(std::string_view text) { return decode(text, "-_"); }

}  // namespace pulsegate
