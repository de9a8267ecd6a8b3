#include "server/settings/config_file.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/parsed_settings.h"
#include "tests/support/text.h"

using namespace pulsegate;

TEST_CASE("a flag overrules the config file") {
    const SettingsFile file("idle-timeout = \"90s\"\nshards = 7\n");
    auto arguments = file.arguments();
    arguments.insert(arguments.end(), {"--shards", "2"});
    const Config config = parsed(arguments);
    CHECK(config.shards == 2);
    CHECK(config.idle_timeout == 90'000);
}

TEST_CASE("the config file may begin with a byte order mark, and its lines end with CRLF") {
    const SettingsFile file("\xEF\xBB\xBFidle-timeout = \"90s\"\r\n\r\nshards = 7\r\n");
    const Config config = parsed(file.arguments());
    CHECK(config.idle_timeout == 90'000);
    CHECK(config.shards == 7);
}

TEST_CASE("a null character in the config file is refused, with its line") {
    const SettingsFile file(std::string("shards = 7\njwt-issuer = \"a\0b\"\n", 31));
    CHECK(has(complaint(file.arguments()), file.arguments()[1] + ":2: has a null character"));
}

TEST_CASE("a setting that is repeated in the config file has all its values, or is refused") {
    const SettingsFile repeated("listen = \"mqtt://h:1\"\nshards = 7\nlisten = \"http://h:2\"\n");
    CHECK(parsed(repeated.arguments()).listen.size() == 2);
    const SettingsFile twice("access-file = \"a\"\nshards = 7\naccess-file = \"b\"\n");
    CHECK(has(complaint(twice.arguments()), "access-file"));
    const SettingsFile flag("demo = true\nshards = 7\ndemo = false\n");
    CHECK(has(complaint(flag.arguments()), "demo"));
}

TEST_CASE("a value that a # cuts within its quotes is refused") {
    CHECK(
        has(complaint(SettingsFile("data = \"/srv/a#b\"\n").arguments()), "a # begins a comment"));
}

TEST_CASE("a wrong line of the config file is answered the same way") {
    const auto said = [](const std::string& text) {
        const SettingsFile file(text);
        return complaint(file.arguments());
    };
    CHECK(has(said("idle_timeout = \"30s\"\n"), "idle_timeout"));
    CHECK(has(said("colour = 3\n"), "colour"));
    CHECK(has(said("[server]\nshards = 3\n"), "'server'"));
    CHECK(has(said("idle-timeout = \"never\"\n"), "idle-timeout: 'never' is no duration"));
    CHECK(has(said("max-loop-lag = \"0s\"\n"), "0s is out of range; choose 1ms to 60s"));
    CHECK(has(said("shards = 1000\n"), "shards: '1000'"));
    for (const char* text :
         {"colour = 3\n", "idle-timeout = \"never\"\n", "strict-idle-timeout = maybe\n"}) {
        CAPTURE(text);
        CHECK(!said(text).empty());
        CHECK_FALSE(has(said(text), "\n"));
    }
}
