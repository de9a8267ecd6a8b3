// The URLs of settings: listeners, and backends.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "server/settings/config.h"
#include "tests/support/parsed_settings.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace pulsegate;

TEST_CASE("several listeners are several flags, or a list in the file") {
    const SettingsFile file(
        "listen = [\"mqtt://127.0.0.1:1\", \"mqtt://[::1]:2\", \"http://localhost:3\"]\n");
    for (const Config& config : {parsed({"--listen", "mqtt://127.0.0.1:1", "--listen",
                                         "mqtt://[::1]:2", "--listen", "http://localhost:3"}),
                                 parsed(file.arguments())}) {
        REQUIRE(config.listen.size() == 3);
        CHECK(config.listen[0].text() == "mqtt://127.0.0.1:1");
        CHECK(config.listen[1].text() == "mqtt://[::1]:2");
        CHECK(config.listen[1].host == "::1");
        CHECK(config.listen[2].text() == "http://localhost:3");
    }
}

TEST_CASE("the demo has a listener for its page, unless one is named") {
    const auto last = [](const std::vector<std::string>& arguments) {
        return parsed(arguments).listen.back();
    };
    CHECK(last({"--demo"}).text() == "ws://127.0.0.1:8083/mqtt");
    CHECK(last({}).text() == "http://127.0.0.1:8080");
    const std::vector<std::string> named{"--demo", "--listen", "ws://127.0.0.1:9/chat", "--listen",
                                         "http://127.0.0.1:8"};
    CHECK(parsed(named).listen.size() == 2);
}

TEST_CASE("a listener without a port has the usual one") {
    const Config config = parsed({"--listen", "http://127.0.0.1", "--listen", "mqtt://[::1]/"});
    CHECK(config.listen[0].text() == "http://127.0.0.1:8080");
    CHECK(config.listen[1].text() == "mqtt://[::1]:1883");
}

TEST_CASE("a mistake in a URL does not repeat the password in it") {
    for (const char* url : {"https:/gw:secret@auth.example/x", "htps://gw:secret@auth.example/x",
                            "https://gw:secret@auth.example/x", "secret://gw@auth.example"}) {
        const auto said = complaint({"--auth-hook", url});
        CHECK_FALSE(said.empty());
        CHECK_MESSAGE(said.find("secret") == said.npos, said);
    }
}

TEST_CASE("an auth hook's URL has the usual port and path, unless it names them") {
    const auto hook = [](const char* url) {
        return *parsed({"--auth-hook", url}).authenticator.hook.url;
    };
    CHECK(hook("http://auth.example").authority() == "auth.example");
    CHECK(hook("http://auth.example").port == 80);
    CHECK(hook("http://auth.example:443").authority() == "auth.example:443");
    CHECK(hook("http://auth.example").target == "/");
    CHECK_FALSE(hook("http://auth.example").tls);
    CHECK(hook("https://auth.example/").authority() == "auth.example");
    CHECK(hook("https://auth.example/").port == 443);
    CHECK(hook("https://auth.example?a=b").target == "/?a=b");
    CHECK(hook("https://[2001:db8::1]/x").authority() == "[2001:db8::1]");
    CHECK(hook("https://[2001:db8::1]:444/x").authority() == "[2001:db8::1]:444");
    CHECK(hook("https://[2001:db8::1]/x").host == "2001:db8::1");
}
