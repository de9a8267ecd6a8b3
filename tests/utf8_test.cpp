#include "protocol/utf8.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "protocol/bytes.h"
#include "tests/support/codec_check.h"

using namespace pulsegate;

namespace {

/// UTF-8 of a code point as RFC 3629 draws it, legal or not.
std::string utf8(std::uint32_t code, int size) {
    if (size == 1) return {static_cast<char>(code)};
    std::string out;
    for (int i = 0; i < size - 1; ++i) {
        out.insert(out.begin(), static_cast<char>(0x80 | (code & 0x3F)));
        code >>= 6;
    }
    const unsigned mark = 0xF00u >> size & 0xFF;  // 110..... 1110.... 11110...
    out.insert(out.begin(), static_cast<char>(mark | code));
    return out;
}

int shortest_size(std::uint32_t code) {
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

}  // namespace

TEST_CASE("every code point but U+0000 and the surrogates is UTF-8 in its shortest form only") {
    std::size_t right = 0;
    for (std::uint32_t code = 0; code <= 0x1FFFFF; ++code) {
        const bool character = code != 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        for (int size = shortest_size(code); size <= 4; ++size) {
            const bool expected = character && size == shortest_size(code);
            if (valid_utf8(utf8(code, size)) == expected) {
                ++right;
            } else {
                CAPTURE(code);
                CAPTURE(size);
                FAIL_CHECK("wrong");
            }
        }
    }
    // Each in its shortest form and every longer one.
    CHECK(right == 0x200000 + 0x10000 + 0x800 + 0x80);
}

TEST_CASE("control characters are those below the space, and from DEL to U+009F") {
    for (std::uint32_t code = 1; code <= 0x10FFFF; ++code) {
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        const bool control = code < 0x20 || (code >= 0x7F && code <= 0x9F);
        const auto text = utf8(code, shortest_size(code));
        if (has_control_character(text) != control) FAIL_CHECK("wrong: U+" << code);
    }
    const std::string plain = "room/\u00E9\u3042/\U0001F600 and ~ more than eight bytes";
    CHECK_FALSE(has_control_character(plain));
    CHECK_FALSE(has_control_character(""));
    // The byte behind the end would make it one.
    CHECK_FALSE(has_control_character(std::string_view("\xC2\x80", 1)));
    for (const char* control : {"\n", "\x7F", "\u0085", "\u009B"})
        for (const std::size_t at : {std::size_t{0}, std::size_t{5}, plain.size()})
            CHECK(has_control_character(std::string(plain).insert(at, control)));
}

TEST_CASE("text that is cut inside a character is not UTF-8") {
    for (const std::string whole : {"\u00E9", "\u3042", "\U0001F600", "12345678\u00E9"}) {
        const std::size_t last = whole.size() - 1;
        const std::string cut = whole.substr(0, last);
        const ExactCopy copy(as_bytes(cut));
        CHECK(valid_utf8(whole));
        CHECK_FALSE(valid_utf8(as_text(copy.bytes())));
        CHECK_FALSE(valid_utf8(cut + "a"));
    }
}

TEST_CASE("the first character of a text has its code point and size") {
    for (const std::uint32_t code : {0x1u, 0x41u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xFFFFu,
                                     0x10000u, 0x1F600u, 0x10FFFFu}) {
        const int size = shortest_size(code);
        const auto first = first_character(utf8(code, size) + "x");
        CHECK(first.code == code);
        CHECK(first.size == static_cast<std::size_t>(size));
    }
    for (const char* none : {"", "\x80", "\xC3", "\xE3\x81", "\xFF"})
        CHECK(first_character(none).size == 0);
}

TEST_CASE("a text is cut before a character that does not fit") {
    const std::string text = "a\u00E9\u3042\U0001F600";  // 1, 2, 3 and 4 bytes
    const std::size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    for (std::size_t most = 0; most < std::size(expected); ++most)
        CHECK(first_characters(text, most) == text.substr(0, expected[most]));
    CHECK(first_characters("", 0).empty());
    CHECK(first_characters(std::string(9, '\x80'), 8).size() <= 8);  // no text at all
}

TEST_CASE("stray bytes are not UTF-8") {
    for (const char* stray : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xF5\x80\x80\x80", "\xFE",
                              "\xFF", "a\x80", "\xE2\x28\xA1", "\xF0\x28\x8C\xBC"})
        CHECK_FALSE(valid_utf8(stray));
}

TEST_CASE("a bad byte is found wherever in a long text it is") {
    const std::string text(40, 'a');
    CHECK(valid_utf8(text));
    CHECK(valid_utf8(""));
    for (std::size_t at = 0; at < text.size(); ++at) {
        for (const char bad : {'\0', '\x80', '\xFF'}) {
            std::string broken = text;
            broken[at] = bad;
            CHECK_FALSE(valid_utf8(broken));
        }
        std::string control = text;
        control[at] = '\x01';
        CHECK(valid_utf8(control));
    }
}
