#include "server/settings/toml/config_file.h"

#include <doctest/doctest.h>

#include <iterator>
#include <string>

#include "tests/support/parsed_settings.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

/// What is said about the text of a file, without the file's name: `2: idle-timeout: ...`.
std::string said_of_file(const std::string& text) {
    const SettingsFile file(text);
    std::string said = complaint(file.arguments());
    const std::string begin = file.path() + ":";
    return said.starts_with(begin) ? said.substr(begin.size()) : said;
}

Config read_from_file(const std::string& text) { return parsed(SettingsFile(text).arguments()); }

}  // namespace

TEST_CASE("a flag overrules the config file") {
    const SettingsFile file("idle-timeout = \"90s\"\nshards = 7\n");
    auto arguments = file.arguments();
    arguments.insert(arguments.end(), {"--shards", "2"});
    const Config config = parsed(arguments);
    CHECK(config.shards == 2);
    CHECK(config.idle_timeout == 90'000);
}

TEST_CASE("the config file may begin with a byte order mark, and its lines end with CRLF") {
    const Config config =
        read_from_file("\xEF\xBB\xBFidle-timeout = \"90s\"\r\n\r\nshards = 7\r\n");
    CHECK(config.idle_timeout == 90'000);
    CHECK(config.shards == 7);
}

TEST_CASE("a list of the config file may go on over several lines, with comments") {
    const Config config = read_from_file(
        "listen = [  # for clients\n    \"mqtt://h:1\",\n\n    # and for the admin API\n"
        "    'http://h:2',\n]  # that is all\nshards = 7\n");
    REQUIRE(config.listen.size() == 2);
    CHECK(config.listen[1].text() == "http://h:2");
    CHECK(config.shards == 7);
}

TEST_CASE("a list that is repeated in the config file has all its values") {
    const Config config =
        read_from_file("listen = \"mqtt://h:1\"\nshards = 7\nlisten = \"http://h:2\"\n");
    CHECK(config.listen.size() == 2);
}

TEST_CASE("a # within quotes begins no comment, and a backslash keeps a quote") {
    CHECK(read_from_file("data = \"/srv/a#b\"  # a comment\n").data == "/srv/a#b");
    CHECK(read_from_file("data = '/srv/a\\b'\n").data == "/srv/a\\b");
    CHECK(read_from_file("data = \"/srv/\\\"a\\\\b\\\"\"\n").data == "/srv/\"a\\b\"");
}

TEST_CASE("quotes never harm, and numbers, true and false need none") {
    CHECK(read_from_file("shards = \"7\"\ndemo = \"true\"\n").shards == 7);
    CHECK(read_from_file("demo = \"on\"\n").demo);
    CHECK_FALSE(read_from_file("demo = false\n").demo);
    CHECK(read_from_file("inbox = true\n").inbox);
    CHECK_FALSE(read_from_file("tls-min-version = 1.2\n").demo);
}

TEST_CASE("Forty wrong settings: each answer names the line and the remedy") {
    // The second line is wrong, unless the answer begins with another number.
    struct {
        const char* text;
        const char* answer;
    } const wrong[] = {
        {"\nidletimeout = \"30s\"", "2: unknown setting 'idletimeout'; did you mean idle-timeout?"},
        {"\nidle_timeout = \"30s\"", "did you mean idle-timeout?"},
        {"\nIdle-Timeout = \"30s\"", "did you mean idle-timeout?"},
        {"\n--shards = 2", "unknown setting '--shards'; did you mean shards?"},
        {"\ntls-certificate = \"a\"", "did you mean tls-cert?"},
        {"\nlog.level = \"debug\"", "did you mean log-level?"},
        {"\ncolour = 3", "2: unknown setting 'colour'; --help lists the settings"},
        {"shards = 2\nshards = 3", "2: shards: line 1 sets it already; remove one"},
        {"shards = 2\ndemo = true\nshards = 2", "3: shards: line 1 sets it already; remove one"},
        {"demo = true\ndemo = false", "2: demo: line 1 sets it already; remove one"},
        {"\nlisten = [\"mqtt://h:1\", \"http://h:2\"",
         "2: listen: the list is not closed; write a ]"},
        {"\nlisten = [\"mqtt://h:1\",\nshards = 2", "2: listen: the list is not closed; write a ]"},
        {"\nlisten = [\"mqtt://h:1\" \"http://h:2\"]", "write [\"...\", \"...\"]"},
        {"\nlisten = [\"mqtt://h:1\",, \"http://h:2\"]", "write [\"...\", \"...\"]"},
        {"\nlisten = [[\"mqtt://h:1\"]]", "2: listen: a list can't contain a list; write one list"},
        {"\nlisten = \"mqtt://h:1\", \"http://h:2\"", "write listen = [\"mqtt://h:1\", ...]"},
        {"listen = [\n\"mqtt://h:1\",\n\"gopher://h:2\"]",
         "3: listen: 'gopher://h:2' has the unkn"},
        {"\nshards = [2, 3]", "2: shards: it takes one value, not a list; write shards = 2"},
        {"\nidle-timeout: 20s", "a ':' instead of a '='; write idle-timeout = \"20s\""},
        {"\nidletimeout: \"20s\"", "instead of a '='; write idle-timeout = \"20s\""},
        {"\nshards 1", "2: shards: there is no '=' before the value; write shards = 1"},
        {"\nlog-level debug", "no '=' before the value; write log-level = \"debug\""},
        {"\nshards", "2: shards: the value is missing; write shards = "},
        {"\nexport A=1", "2: unknown setting 'export'; --help lists the settings"},
        {"\n  - mqtt://h:1", "2: unknown setting '-'; --help lists the settings"},
        {"\nshards == 2", "2: shards: there are two '='; write shards = 2"},
        {"\nfsync == \"always\"", "2: fsync: there are two '='; write fsync = \"always\""},
        {"\nfsync = “always”", "2: fsync: “always” is not in quotes; write fsync = \"always\""},
        {"\nlisten = [“mqtt://h:1”]", "“mqtt://h:1” is not in quotes; write \"mqtt://h:1\""},
        {"\nadmin-token = \"a\"", "2: unknown setting 'admin-token'; did you mean admin-token-fil"},
        {"\nlisten = \"mqtt://h:1?proxy_protocol\"", "'proxy_protocol'; write ?proxy-protocol, or"},
        {"\nlisten = \"http://h:1?proxy-protocol\"", "'proxy-protocol'; write the URL without it"},
        {"\n[server]", "2: [server]: the file has no sections; remove the line"},
        {"\n[[listen]]", "2: [[listen]]: the file has no sections; remove the line"},
        {"\n= 3", "2: '= 3' does not begin with the name of a setting; write NAME = VALUE"},
        {"\nfsync = always", "2: fsync: always is not in quotes; write fsync = \"always\""},
        {"\nidle-timeout = 30s", "30s is not in quotes; write idle-timeout = \"30s\""},
        {"\nidle-timeout = 30s\"", "30s is not in quotes; write idle-timeout = \"30s\""},
        {"\ndemo = yes", "2: demo: yes is not true or false; write demo = true"},
        {"\ndemo = \"yes\"", "2: demo: 'yes' is unknown; choose true or false"},
        {"\ninbox = \"yes\"", "2: inbox: 'yes' is unknown; choose on or off"},
        {"\ndata = \"/srv", "2: data: \"/srv has no closing quote; write a \" after the value"},
        {"\ndata = '/srv", "2: data: '/srv has no closing quote; write a ' after the value"},
        {"\ndata = \"C:\\data\"", "2: data: the escape after \\ is unknown"},
        {"\nshards = 2 3", "2: shards: 2 3 is not a whole number; write digits"},
        {"\nshards = \"2\" 3", "2: shards: there is text after the value: 3; remove it"},
        {"\nlisten = [\"mqtt://h:1\"] 3", "there is text after the list: 3; remove it"},
        {"\naccess-file = \"\"", "2: access-file: the value is empty; write FILE, or leave the"},
        {"\ndemo =", "2: demo: the value is empty; write demo = true"},
        {"\nidle-timeout = \"never\"", "2: idle-timeout: 'never' is not a duration; write 500ms"},
        {"\nmax-loop-lag = \"0s\"", "2: max-loop-lag: 0s is out of range; choose 1ms to 60s"},
        {"\nmax-packet-size = \"1MB\"", "2: max-packet-size: '1MB' is not a size; write 65536"},
        {"\nshards = 1000", "2: shards: '1000' is out of range; choose 1 to 256"},
        {"\nlog-level = \"loud\"", "2: log-level: 'loud' is unknown; choose debug"},
        {"\nmax-packet-size = \"2MiB\"", "2: output-budget: 1048576 bytes are less than max-pa"},
        {"\noutput-budget = \"16KiB\"", "2: output-budget: 16384 bytes are less"},
        {"\ntls-cert = \"a\"", "2: tls-cert: no listener has TLS; name one with --listen mqtts"},
        {"\njwt-issuer = \"a\"", "2: jwt-issuer: there is no key to check tokens with; name one"},
        {"\nnode-name = \"a\"", "2: node-name: this node is not in a cluster; name its Redis"},
        {"\ncluster = \"redis://r\"\ndata = \"d\"",
         "3: data: with --cluster, Redis stores the data"},
        {"\n\xFF = 3", "2: is not UTF-8; save the file as UTF-8"},
    };
    static_assert(std::size(wrong) >= 40);
    for (const auto& [text, answer] : wrong) {
        const std::string said = said_of_file(text);
        const std::string expected = answer;
        CAPTURE(said);
        CAPTURE(expected);
        CHECK(has(said, expected));
        const bool names_line = expected[0] >= '1' && expected[0] <= '9' && expected[1] == ':';
        CHECK(said.starts_with(names_line ? expected.substr(0, 2) : "2:"));
        CHECK(has(said, ";"));
        CHECK_FALSE(has(said, "\n"));
    }
    CHECK(has(said_of_file(std::string("shards = 7\njwt-issuer = \"a\0b\"\n", 31)),
              "2: has a null character; save the file as UTF-8"));
}

TEST_CASE("a wrong value in the config file is refused, even if a flag overrules it") {
    const SettingsFile file("shards = 0\n");
    auto arguments = file.arguments();
    arguments.insert(arguments.end(), {"--shards", "2"});
    CHECK(has(complaint(arguments), file.path() + ":1: shards: '0' is out of range"));
}

TEST_CASE("a file that can't be read is named") {
    CHECK(has(complaint({"--config", "/no/such/file"}),
              "config: /no/such/file: can't be read: No such file"));
    CHECK(has(complaint({"--config", "/tmp"}), "config: /tmp: "));
}
