#include <doctest/doctest.h>

#include <string>

#include "tests/support/parsed_settings.h"
#include "tests/support/text.h"

using namespace pulsegate;

TEST_CASE("a setting is a variable of the environment") {
    const Config config = parsed({}, {"HOME=/root", "PULSEGATE_IDLE_TIMEOUT=90s",
                                      "PULSEGATE_DEMO=true", "PULSEGATE_INBOX=off", "EMPTY="});
    CHECK(config.idle_timeout == 90'000);
    CHECK(config.demo);
    CHECK_FALSE(config.inbox);
}

TEST_CASE("a flag overrules a variable, and a variable the file") {
    const SettingsFile file("shards = 2\nidle-timeout = \"20s\"\nlogin-timeout = \"20s\"\n");
    const Config config = parsed({"--config", file.path(), "--shards", "4"},
                                 {"PULSEGATE_SHARDS=3", "PULSEGATE_IDLE_TIMEOUT=30s"});
    CHECK(config.shards == 4);
    CHECK(config.idle_timeout == 30'000);
    CHECK(config.login_timeout == 20'000);
}

TEST_CASE("the values of a list are divided by blanks, and take the place of the file's") {
    const SettingsFile file("listen = \"mqtt://h:9\"\n");
    const Config config = parsed(
        file.arguments(), {"PULSEGATE_LISTEN=mqtt://h:1  ws://h:2/x?proxy-protocol\nhttp://h:3 "});
    REQUIRE(config.listen.size() == 3);
    CHECK(config.listen[0].text() == "mqtt://h:1");
    CHECK(config.listen[1].text() == "ws://h:2/x?proxy-protocol");
    CHECK(config.listen[2].text() == "http://h:3");
}

TEST_CASE("a variable names the settings file, unless a flag does") {
    const SettingsFile file("shards = 2\n");
    CHECK(parsed({}, {"PULSEGATE_CONFIG=" + file.path()}).shards == 2);
    CHECK(parsed(file.arguments(), {"PULSEGATE_CONFIG=/no/such/file"}).shards == 2);
    CHECK(has(complaint({}, {"PULSEGATE_CONFIG=/no/such/file"}), "/no/such/file"));
}

TEST_CASE("a wrong variable is named with the remedy") {
    const auto said = [](const char* variable) { return complaint({}, {variable}); };
    CHECK(said("PULSEGATE_IDLETIMEOUT=30s") ==
          "PULSEGATE_IDLETIMEOUT: unknown setting; did you mean PULSEGATE_IDLE_TIMEOUT?");
    CHECK(has(said("PULSEGATE_IDLE-TIMEOUT=30s"), "did you mean PULSEGATE_IDLE_TIMEOUT?"));
    CHECK(has(said("PULSEGATE_shards=2"), "did you mean PULSEGATE_SHARDS?"));
    CHECK(has(said("PULSEGATE_COLOUR=3"), "; --help lists the settings"));
    CHECK(said("PULSEGATE_SHARDS=0") ==
          "PULSEGATE_SHARDS: shards: '0' is out of range; choose 1 to 256");
    CHECK(has(said("PULSEGATE_DEMO=1"), "PULSEGATE_DEMO: demo: '1' is unknown; choose true"));
    CHECK(has(said("PULSEGATE_TLS_CERT=a b"), "PULSEGATE_TLS_CERT: tls-cert: no listener has TLS"));
    for (const char* empty : {"PULSEGATE_ACCESS_FILE=", "PULSEGATE_ACCESS_FILE",
                              "PULSEGATE_DEMO=", "PULSEGATE_LISTEN= ", "PULSEGATE_CONFIG="}) {
        CAPTURE(empty);
        CHECK(has(said(empty), "the value is empty; write "));
    }
}

TEST_CASE("variables that Kubernetes sets for a service named pulsegate are no settings") {
    const Config config =
        parsed({}, {"PULSEGATE_PORT=tcp://10.0.0.1:1883", "PULSEGATE_SERVICE_HOST=10.0.0.1",
                    "PULSEGATE_SERVICE_PORT=1883", "PULSEGATE_SERVICE_PORT_MQTT=1883",
                    "PULSEGATE_PORT_1883_TCP=tcp://10.0.0.1:1883",
                    "PULSEGATE_PORT_1883_TCP_ADDR=10.0.0.1", "PULSEGATE_GOES_ON=1"});
    CHECK(config.listen.size() == 2);
}
