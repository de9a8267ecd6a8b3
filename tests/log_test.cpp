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

TEST_CASE("long text is cut, and its length is told") {
    CHECK(fmt::format("{}", quoted(std::string(64, 'a'))) == "'" + std::string(64, 'a') + "'");
    CHECK(fmt::format("{}", quoted(std::string(65, 'a'))) ==
          "'" + std::string(64, 'a') + "'... (65 bytes)");
}
