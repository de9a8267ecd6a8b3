#include "server/base/log.h"

#include <doctest/doctest.h>

#include <string>

using namespace pulsegate;

TEST_CASE("text from the network stands in quotes, and can neither end them nor the line") {
    CHECK(fmt::format("{}", in_quotes("alice")) == "'alice'");
    CHECK(fmt::format("{}", in_quotes("")) == "''");
    CHECK(fmt::format("{}", in_quotes("it's")) == "'it\\x27s'");
    CHECK(fmt::format("{}", in_quotes("a\\b")) == "'a\\x5cb'");
    CHECK(fmt::format("{}", in_quotes("a\nb\x7F")) == "'a\\x0ab\\x7f'");
    CHECK(fmt::format("{}", in_quotes("\xC3\xA9")) == "'\xC3\xA9'");
}

TEST_CASE("what steers terminals, breaks lines or turns the text around is escaped") {
    const auto shown = [](std::string_view text) { return fmt::format("{}", in_quotes(text)); };
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
    CHECK(fmt::format("{}", in_quotes(text)) == fmt::format("'{}'... (65 bytes)", first));
}

TEST_CASE("long text is cut, and its length is told") {
    CHECK(fmt::format("{}", in_quotes(std::string(64, 'a'))) == "'" + std::string(64, 'a') + "'");
    CHECK(fmt::format("{}", in_quotes(std::string(65, 'a'))) ==
          "'" + std::string(64, 'a') + "'... (65 bytes)");
}

TEST_CASE("lines that peers provoke have room for 50 at once, and 1,000 a minute after that") {
    LineBudget budget;
    Millis now = 1'000'000;
    const auto lines = [&](int tries) {
        int logged = 0;
        for (int i = 0; i < tries; ++i) logged += budget.take(now);
        return logged;
    };
    CHECK(lines(1000) == 50);
    int in_a_minute = 0;
    for (int i = 0; i < 600; ++i) {
        now += 100;
        in_a_minute += lines(100);
    }
    CHECK(in_a_minute == 1000);
    now += 60'000;  // nothing happens for a while
    CHECK(lines(1000) == 50);
}

TEST_CASE("how many lines had no room is said, but not all the time") {
    LineBudget budget;
    Millis now = 1'000'000;
    for (int i = 0; i < 150; ++i) (void)budget.take(now);
    CHECK(budget.suppressed(now) == 0);  // it has only just begun
    CHECK(budget.suppressed(now + 1000) == 100);
    CHECK(budget.suppressed(now + 1000) == 0);
    now += 2000;
    for (int i = 0; i < 100; ++i) (void)budget.take(now);
    CHECK(budget.suppressed(now + 1000) == 0);
    const auto later = budget.suppressed(now + 10'000);
    CHECK(later > 50);
    CHECK(later < 100);
}
