#include "server/base/log.h"

#include <doctest/doctest.h>

#include <string>

using namespace pulsegate;

TEST_CASE("text from the network stands in quotes, and can neither end them nor the line") {
    CHECK(fmt::format("{}", quoted("alice")) == "'alice'");
    CHECK(fmt::format("{}", quoted("")) == "''");
    CHECK(fmt::format("{}", quoted("it's")) == "'it\\x27s'");
    CHECK(fmt::format("{}", quoted("a\\b")) == "'a\\x5cb'");
    CHECK(fmt::format("{}", quoted("a\nb\x7F")) == "'a\\x0ab\\x7f'");
    CHECK(fmt::format("{}", quoted("\xC3\xA9")) == "'\xC3\xA9'");
}

TEST_CASE("what steers terminals, breaks lines or turns the text around is escaped") {
    const auto shown = [](std::string_view text) { return fmt::format("{}", quoted(text)); };
    CHECK(shown("a\u0085b\u009B31m") == "'a\\u0085b\\u009b31m'");
    CHECK(shown("a\u2028b\u2029") == "'a\\u2028b\\u2029'");
    CHECK(shown("\u200E\u200F") == "'\\u200e\\u200f'");
    CHECK(shown("\u202Amoc.live\u202E") == "'\\u202amoc.live\\u202e'");
    CHECK(shown("\u2066\u2069") == "'\\u2066\\u2069'");
    // Joiners are part of words and emoji.
    CHECK(shown("\u200D\u3042 \U0001F600") == "'\u200D\u3042 \U0001F600'");
    CHECK(shown("a\xFF\xC3") == "'a\\xff\\xc3'");
    CHECK(shown(std::string_view("\0", 1)) == "'\\x00'");
}

TEST_CASE("long text is cut before a letter that does not fit") {
    const std::string first(63, 'a');
    std::string text = first;
    text.append("\u00E9");
    CHECK(fmt::format("{}", quoted(text)) == fmt::format("'{}'... (65 bytes)", first));
}

TEST_CASE("long text is cut, and its length is told") {
    CHECK(fmt::format("{}", quoted(std::string(64, 'a'))) == "'" + std::string(64, 'a') + "'");
    CHECK(fmt::format("{}", quoted(std::string(65, 'a'))) ==
          "'" + std::string(64, 'a') + "'... (65 bytes)");
}
