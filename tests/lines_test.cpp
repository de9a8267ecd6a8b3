#include "server/base/text/lines.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace pulsegate;
using namespace std::string_view_literals;

namespace {

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> all;
    Lines lines(text);
    while (lines.next()) {
        all.emplace_back(lines.line());
        CHECK(lines.number() == all.size());
    }
    return all;
}

}  // namespace

TEST_CASE("lines end with LF or CRLF, and the last one may lack its end") {
    using All = std::vector<std::string>;
    CHECK(lines_of("") == All{});
    CHECK(lines_of("a") == All{"a"});
    CHECK(lines_of("a\n") == All{"a"});
    CHECK(lines_of("a\r\n\r\nb\r\n") == All{"a", "", "b"});
    CHECK(lines_of("\na\rb\r") == All{"", "a\rb"});
}

TEST_CASE("a byte order mark is skipped at the start of a text, and only there") {
    CHECK(lines_of("\xEF\xBB\xBF") == std::vector<std::string>{});
    CHECK(lines_of("\xEF\xBB\xBF"
                   "a\nb") == std::vector<std::string>{"a", "b"});
    CHECK(lines_of("a\n\xEF\xBB\xBF") == std::vector<std::string>{"a", "\xEF\xBB\xBF"});
    CHECK(lines_of("\xEF\xBB") == std::vector<std::string>{"\xEF\xBB"});
    CHECK(without_byte_order_mark("\xEF\xBB\xBF\xEF\xBB\xBF") == "\xEF\xBB\xBF");
}

TEST_CASE("the first line with a null character is found") {
    CHECK(line_with_null("a\nb") == 0);
    CHECK(line_with_null("\0"sv) == 1);
    CHECK(line_with_null("a\nb\n\0\n\0"sv) == 3);
}
