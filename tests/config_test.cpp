#include "server/settings/config.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "server/base/version.h"
#include "tests/support/parsed_settings.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

std::string told(const char* flag) {
    try {
        parsed({flag});
        return {};
    } catch (const UsageRequested& informed) {
        return informed.text;
    }
}

/// Every setting, with a value that is not the usual one.
const std::vector<std::pair<std::string, std::string>> settings{
    {"listen", "mqtt://127.0.0.1:2883"},
    {"allow-anonymous", "true"},
    {"jwt-jwks-url", "https://login.example/jwks.json"},
    {"jwt-jwks-refresh", "10m"},
    {"jwt-jwks-keep", "2h"},
    {"jwt-jwks-ca", "jwks-ca.pem"},
    {"auth-hook", "https://auth.example:9443/mqtt?kind=login"},
    {"auth-hook-timeout", "5s"},
    {"auth-hook-cache", "0"},
    {"auth-hook-connections", "20"},
    {"auth-hook-ca", "ca.pem"},
    {"auth-hook-token-file", "token"},
    {"shards", "3"},
    {"idle-timeout", "90s"},
    {"strict-idle-timeout", "true"},
    {"login-timeout", "2m"},
    {"forget-after", "7d"},
    {"user-from", "client-id"},
    {"max-packet-size", "64KiB"},
    {"max-client-id-length", "64"},
    {"websocket-origin", "https://chat.example"},
    {"output-budget", "2MiB"},
    {"max-keepalive", "5m"},
    {"receive-maximum", "10"},
    {"max-inflight", "11"},
    {"topic-alias-maximum", "0"},
    {"max-qos", "1"},
    {"max-session-expiry", "2h"},
    {"persistent-session-quota", "12"},
    {"persistent-session-bytes", "2MiB"},
    {"queue-memory", "3MiB"},
    {"max-queued-messages", "13"},
    {"max-queued-bytes", "14KiB"},
    {"history-bytes", "17KiB"},
    {"retain-available", "off"},
    {"max-retained-messages", "15"},
    {"max-retained-bytes", "16KiB"},
    {"max-retained-messages-per-user", "5"},
    {"max-retained-bytes-per-user", "6KiB"},
    {"inbox-expiry", "3h"},
    {"max-inboxes", "27"},
    {"max-inboxes-per-user", "28"},
    {"max-inbox-bytes-per-user", "30KiB"},
    {"max-delayed-messages", "25"},
    {"max-delayed-bytes", "26KiB"},
    {"max-delayed-messages-per-user", "7"},
    {"max-delayed-bytes-per-user", "8KiB"},
    {"inbox", "off"},
    {"rooms", "members"},
    {"presence-for", "watchers"},
    {"max-room-members", "29"},
    {"sender-property", "author"},
    {"sender-in-topic", "on"},
    {"max-subscriptions", "17"},
    {"max-client-memory", "100KiB"},
    {"max-user-memory", "200KiB"},
    {"wildcard-subscriptions", "off"},
    {"shared-subscriptions", "off"},
    {"max-topic-length", "18"},
    {"max-topic-levels", "19"},
    {"webhook", "https://backend.example/events"},
    {"webhook-events", "login,presence"},
    {"webhook-payload", "on"},
    {"webhook-secret-file", "webhook.secret"},
    {"webhook-token-file", "webhook.token"},
    {"webhook-ca-file", "webhook-ca.pem"},
    {"webhook-batch", "21"},
    {"webhook-timeout", "22s"},
    {"presence-feed", "off"},
    {"event-log-bytes", "23MiB"},
    {"events", "changes.jsonl"},
    {"data", "state"},
    {"fsync", "1s"},
    {"max-data-bytes", "2GiB"},
    {"demo", "true"},
    {"log-level", "debug"},
    {"log-format", "json"},
    {"log-logins", "true"},
};

void check_unusual(const Config& config) {
    REQUIRE(config.listen.size() == 3);
    CHECK(config.listen[0].text() == "mqtt://127.0.0.1:2883");
    CHECK(config.listen[1].text() == "http://127.0.0.1:8080");
    CHECK(config.demo);
    CHECK(config.authenticator.allow_anonymous);
    const auto& keys = config.authenticator.key_server;
    REQUIRE(keys.url);
    CHECK(keys.url->target == "/jwks.json");
    CHECK(keys.refresh == 600'000);
    CHECK(keys.keep == 7'200'000);
    CHECK(keys.ca_file == "jwks-ca.pem");
    const auto& hook = config.authenticator.hook;
    REQUIRE(hook.url);
    CHECK(hook.url->tls);
    CHECK(hook.url->authority() == "auth.example:9443");
    CHECK(hook.url->target == "/mqtt?kind=login");
    CHECK(hook.timeout == 5'000);
    CHECK(hook.cache == 0);
    CHECK(hook.connections == 20);
    CHECK(hook.ca_file == "ca.pem");
    CHECK(hook.token_file == "token");
    REQUIRE(config.webhook.url);
    CHECK(config.webhook.url->authority() == "backend.example");
    CHECK(config.webhook.url->target == "/events");
    CHECK(config.webhook.events == (kinds_of(EventKind::login) | kinds_of(EventKind::presence)));
    CHECK(config.webhook.secret_file == "webhook.secret");
    CHECK(config.webhook.token_file == "webhook.token");
    CHECK(config.webhook.ca_file == "webhook-ca.pem");
    CHECK(config.webhook.batch == 21);
    CHECK(config.webhook.timeout == 22'000);
    CHECK(config.webhook_payload);
    CHECK_FALSE(config.keeps_presence());
    CHECK(config.recorded_events == config.webhook.events);
    CHECK(config.event_log_bytes == 23 * 1024 * 1024);
    CHECK(config.data == "state");
    CHECK(config.fsync == Fsync::each_second);
    CHECK(config.max_data_bytes == std::size_t{2} * 1024 * 1024 * 1024);
    CHECK(config.shards == 3);
    CHECK(config.idle_timeout == 90'000);
    CHECK(config.strict_idle_timeout);
    CHECK(config.login_timeout == 120'000);
    CHECK(config.forget_after == 7ll * 24 * 3600 * 1000);
    CHECK(config.user_from == UserFrom::client_id);
    CHECK(config.max_packet_size == 64 * 1024);
    CHECK(config.max_client_id_length == 64);
    CHECK(config.websocket_origin == std::vector<std::string>{"https://chat.example"});
    CHECK(config.output_budget == 2 * 1024 * 1024);
    CHECK(config.max_keepalive == 300);
    CHECK(config.receive_maximum == 10);
    CHECK(config.max_inflight == 11);
    CHECK(config.topic_alias_maximum == 0);
    CHECK(config.max_qos == QoS::at_least_once);
    CHECK(config.max_session_expiry == 7'200'000);
    CHECK(config.persistent_session_quota == 12);
    CHECK(config.persistent_session_bytes == 2 * 1024 * 1024);
    CHECK(config.queue_memory == 3 * 1024 * 1024);
    CHECK(config.max_queued_messages == 13);
    CHECK(config.max_queued_bytes == 14 * 1024);
    CHECK(config.history_bytes == 17 * 1024);
    CHECK_FALSE(config.retain_available);
    CHECK(config.max_retained_messages == 15);
    CHECK(config.max_retained_bytes == 16 * 1024);
    CHECK_FALSE(config.inbox);
    CHECK(config.rooms_are_closed);
    CHECK(config.presence_is_for_watchers);
    CHECK(config.max_room_members == 29);
    CHECK(config.max_inboxes_per_user == 28);
    CHECK(config.max_inbox_bytes_per_user == 30 * 1024);
    CHECK(config.sender_property == "author");
    CHECK(config.sender_in_topic);
    CHECK(config.max_subscriptions == 17);
    CHECK_FALSE(config.wildcard_subscriptions);
    CHECK_FALSE(config.shared_subscriptions);
    CHECK(config.max_topic_length == 18);
    CHECK(config.max_topic_levels == 19);
    CHECK(config.events == "changes.jsonl");
    CHECK(config.log_level == spdlog::level::debug);
    CHECK(config.log_format == LogFormat::json);
    CHECK(config.log_logins);
}

}  // namespace

TEST_CASE("without arguments the gateway serves this machine only") {
    const Config config = parsed({});
    REQUIRE(config.listen.size() == 2);
    CHECK(config.listen[0].text() == "mqtt://127.0.0.1:1883");
    CHECK(config.listen[1].text() == "http://127.0.0.1:8080");
    CHECK(config.shards >= 1);
    CHECK(config.idle_timeout == 30'000);
    CHECK_FALSE(config.strict_idle_timeout);
    CHECK(config.login_timeout == 10'000);
    CHECK(config.user_from == UserFrom::username);
    CHECK(config.max_packet_size == 256 * 1024);
    CHECK_FALSE(config.authenticator.allow_anonymous);
    CHECK_FALSE(config.authenticator.hook.url);
    CHECK(config.authenticator.hook.timeout == 3'000);
    CHECK(config.authenticator.hook.cache == 10'000);
    CHECK(config.authenticator.hook.connections == 16);
    CHECK(config.events.empty());
}

TEST_CASE("a user's share is a tenth of all at most, unless it is stated") {
    const Config usual = parsed({"--memory-budget", "8GiB"});
    CHECK(usual.persistent_session_bytes == std::size_t{1} << 30);
    CHECK(usual.max_retained_bytes == std::size_t{256} << 20);
    CHECK(usual.max_retained_messages_per_user == 100'000);
    CHECK(usual.max_inboxes_per_user == 1000);
    CHECK(usual.max_user_memory == std::size_t{32} << 20);
    CHECK(usual.max_delayed_messages_per_user == 100'000);
    CHECK(usual.max_delayed_bytes_per_user == std::size_t{64} << 20);
    const Config small =
        parsed({"--memory-budget", "300MiB", "--max-retained-messages", "50", "--max-inboxes", "40",
                "--max-delayed-messages", "30", "--max-delayed-bytes", "20KiB"});
    CHECK(small.persistent_session_bytes == std::size_t{150} << 20);
    CHECK(small.max_retained_bytes == std::size_t{75} << 20);
    CHECK(small.max_retained_bytes_per_user == (std::size_t{75} << 20) / 10);
    CHECK(small.max_retained_messages_per_user == 5);
    CHECK(small.max_user_memory == (std::size_t{300} << 20) / 10);
    CHECK(small.max_inboxes_per_user == 4);
    CHECK(small.max_delayed_messages_per_user == 3);
    CHECK(small.max_delayed_bytes_per_user == 20 * 1024);  // one message may take so much
    CHECK(parsed({"--max-inboxes", "1"}).max_inboxes_per_user == 1);
    CHECK(parsed({"--max-inboxes", "0"}).max_inboxes_per_user == 0);
    CHECK(parsed({"--max-inboxes", "40", "--max-inboxes-per-user", "7"}).max_inboxes_per_user == 7);
}

TEST_CASE("every setting is a flag") {
    std::vector<std::string> arguments;
    for (const auto& [name, value] : settings)
        arguments.push_back("--" + name + (value == "true" ? "" : "=" + value));
    check_unusual(parsed(arguments));
}

TEST_CASE("every setting is a line of the config file, under the same name") {
    std::string text = "# a comment\n";
    for (const auto& [name, value] : settings)
        text +=
            name + " = " + (value == "true" || name == "shards" ? value : '"' + value + '"') + "\n";
    const SettingsFile file(text);
    check_unusual(parsed(file.arguments()));
}

TEST_CASE("a switch is on or off, and in the file true or false as well") {
    CHECK(parsed({"--retain-available", "on"}).retain_available);
    CHECK_FALSE(parsed({"--retain-available", "off"}).retain_available);
    CHECK_FALSE(parsed(SettingsFile("retain-available = false\n").arguments()).retain_available);
    CHECK(parsed(SettingsFile("retain-available = true\n").arguments()).retain_available);
    CHECK(has(complaint({"--retain-available", "maybe"}), "choose on or off"));
}

TEST_CASE("rooms are for members if users are known and there are no access rules") {
    const auto closed = [](std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), {"--listen", "mqtt://127.0.0.1"});
        return parsed(arguments).rooms_are_closed;
    };
    CHECK_FALSE(closed({}));
    CHECK(closed({"--rooms", "members"}));
    CHECK(closed({"--password-file", "users"}));
    CHECK(closed({"--jwt-secret", "secret"}));
    CHECK(closed({"--auth-hook", "http://127.0.0.1:9"}));
    CHECK_FALSE(closed({"--password-file", "users", "--rooms", "open"}));
    CHECK_FALSE(closed({"--password-file", "users", "--access-file", "rules"}));
    CHECK_FALSE(closed({"--password-file", "users", "--demo"}));
}

/// The names of all settings that `--help` lists.
std::vector<std::string> settings_of(const std::string& help) {
    std::vector<std::string> names;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
        const auto at = line.find_first_not_of(' ');
        if (line.compare(std::min(at, line.size()), 2, "--") != 0) continue;
        names.push_back(line.substr(at + 2, line.find_first_of(" =", at) - at - 2));
    }
    return names;
}

/// What `--help` says of a setting, up to the next one.
std::string help_on(const std::string& help, const std::string& name) {
    const auto at = help.find("\n  --" + name + " ");
    return help.substr(at, help.find("\n  --", at + 1) - at);
}

TEST_CASE(
    "an empty value is refused in every way to write it, unless the help gives it a meaning") {
    const auto help = told("--help");
    const auto names = settings_of(help);
    REQUIRE(names.size() > settings.size());
    std::vector<std::string> with_a_meaning;
    unsigned ways = 0;
    for (const std::string& name : names) {
        if (name == "version" || name == "check" || name.starts_with("print-")) continue;
        CAPTURE(name);
        std::vector<std::string> said;
        const auto write = [&](std::vector<std::string> arguments) {
            // All ways of all settings take a sanitizer a minute; each setting has one or two.
            if (!sanitized || ++ways % 7 == 0) said.push_back(complaint(std::move(arguments)));
        };
        write({"--" + name + "="});
        write({"--" + name + "=", "--demo"});
        const bool takes_value = !has(help, "--" + name + "  ");
        if (takes_value)
            write({"--" + name, ""});
        else
            CHECK_FALSE(complaint({"--" + name, ""}).empty());
        if (takes_value && name != "config" && name != "sender-property")
            for (const char* blanks : {" ", "\t"}) write({"--" + name, blanks});
        if (name != "config")
            for (const char* line : {" = \"\"\n", " = ''\n", " =\n", " = []\n", " = [\"\"]\n"})
                write(SettingsFile(name + line).arguments());
        if (has(help_on(help, name), "an empty name")) {
            with_a_meaning.push_back(name);
            CHECK(std::ranges::all_of(said, &std::string::empty));
            continue;
        }
        for (const std::string& one : said) {
            CAPTURE(one);
            CHECK(has(one, name));
            CHECK_FALSE(has(one, "\n"));
            CHECK(has(one, "empty"));
        }
    }
    CHECK(with_a_meaning == std::vector<std::string>{"sender-property"});
}

TEST_CASE("a setting does not take the next one for its value") {
    CHECK(has(complaint({"--access-file", "--demo"}), "the value is missing before --demo"));
    CHECK(has(complaint({"--jwt-secret", "--demo"}), "the value is missing before --demo"));
}

TEST_CASE("--help mentions every setting and how to write it") {
    const auto help = told("--help");
    for (const auto& [name, value] : settings) {
        CAPTURE(name);
        CHECK(has(help, "--" + name));
    }
    for (const char* text : {"--config", "--version", "DURATION", "SIZE", "30s", "256KiB"}) {
        CAPTURE(text);
        CHECK(has(help, text));
    }
    CHECK(told("-h") == help);
    CHECK(told("--version") == fmt::format("pulsegate {}\n", program_version()));
}

TEST_CASE("a wrong setting is answered with one line that names it and the remedy") {
    struct {
        std::vector<std::string> arguments;
        const char* name;
        const char* remedy;
    } const wrong[] = {
        {{"--idle-timeout", "30"}, "idle-timeout", "30s"},
        {{"--idle-timeout", "soon"}, "idle-timeout", "30s"},
        {{"--idle-timeout", "-5s"}, "idle-timeout", "30s"},
        {{"--idle-timeout", "1ms"}, "idle-timeout", "choose 1s to 98303s"},
        {{"--idle-timeout", "99999999999999999999s"}, "idle-timeout", "30s"},
        {{"--idle-timeout", "18446744073709551615d"}, "idle-timeout", "30s"},
        {{"--login-timeout", "28h"}, "login-timeout", "choose 1s to 98303s"},
        {{"--forget-after", "0s"}, "forget-after", "choose 1s to"},
        {{"--shards", "0"}, "shards", "choose 1 to 256"},
        {{"--shards", "257"}, "shards", "choose 1 to 256"},
        {{"--shards", "two"}, "shards", "choose 1 to 256"},
        {{"--user-from", "cookie"}, "user-from", "choose username, client-id or certificate"},
        {{"--max-packet-size", "1"}, "max-packet-size", "choose 1024 to"},
        {{"--max-client-id-length", "22"}, "max-client-id-length", "choose 23 to 65535"},
        {{"--max-packet-size", "1MB"}, "max-packet-size", "1MiB"},
        {{"--max-packet-size", "2MiB"}, "output-budget", "a packet must fit"},
        {{"--websocket-origin", "chat.example"}, "websocket-origin", "write https://"},
        {{"--websocket-origin", "https://"}, "websocket-origin", "write https://"},
        {{"--websocket-origin", "https://chat.example/"}, "websocket-origin", "without a path"},
        {{"--output-budget", "x"}, "output-budget", "1MiB"},
        {{"--log-level", "loud"}, "log-level", "choose debug, info, warn or error"},
        {{"--log-format", "xml"}, "log-format", "choose text or json"},
        {{"--listen", "127.0.0.1:1883"}, "listen", "write mqtt://"},
        {{"--listen", "gopher://127.0.0.1"}, "listen", "write mqtt://"},
        {{"--listen", "mqtt://"}, "listen", "write mqtt://"},
        {{"--listen", "mqtt://:1883"}, "listen", "write mqtt://"},
        {{"--listen", "mqtt://[::1"}, "listen", "write mqtt://"},
        {{"--listen", "mqtt://[::1]x"}, "listen", "write mqtt://"},
        {{"--listen", "mqtt://h:"}, "listen", "write mqtt://"},
        {{"--listen", "mqtt://h:65536"}, "listen", "0 to 65535"},
        {{"--listen", "mqtt://h:1883x"}, "listen", "0 to 65535"},
        {{"--auth-hook", "auth.example/mqtt"}, "auth-hook", "write https://"},
        {{"--auth-hook", "ftp://auth.example/"}, "auth-hook", "write https://"},
        {{"--auth-hook", "http:///mqtt"}, "auth-hook", "names no host"},
        {{"--auth-hook", "http://[::1/mqtt"}, "auth-hook", "write https://"},
        {{"--auth-hook", "http://h:0/mqtt"}, "auth-hook", "port 0"},
        {{"--auth-hook", "http://h:x/mqtt"}, "auth-hook", "0 to 65535"},
        {{"--auth-hook", "http://h/mq tt"}, "auth-hook", "percent-encoded"},
        {{"--auth-hook", "http://h/a\r\nHost: b"}, "auth-hook", "percent-encoded"},
        {{"--auth-hook", "http://h/#x"}, "auth-hook", "fragment"},
        {{"--auth-hook", "http://me:secret@h/"}, "auth-hook", "auth-hook-token-file"},
        {{"--auth-hook-timeout", "0"}, "auth-hook-timeout", "choose 1s to 60s"},
        {{"--auth-hook-cache", "2h"}, "auth-hook-cache", "choose 0s to 3600s"},
        {{"--auth-hook-connections", "0"}, "auth-hook-connections", "choose 1 to 1000"},
        {{"--auth-hook=http://h", "--auth-hook-ca=ca.pem"}, "auth-hook-ca", "https://"},
        {{"--webhook", "backend.example"}, "webhook", "write https://"},
        {{"--webhook", "http://me:secret@h/"}, "webhook", "webhook-token-file"},
        {{"--webhook-events", "presence,gossip"}, "webhook-events", "message_waiting"},
        {{"--webhook-events", ","}, "webhook-events", "login_refused"},
        {{"--webhook-secret-file", "s"}, "webhook-secret-file", "--webhook"},
        {{"--webhook-token-file", "t"}, "webhook-token-file", "--webhook"},
        {{"--webhook=http://h", "--webhook-ca-file=ca"}, "webhook-ca-file", "https://"},
        {{"--webhook-batch", "0"}, "webhook-batch", "choose 1 to 1000"},
        {{"--event-log-bytes=9MiB", "--max-data-bytes=16MiB"}, "event-log-bytes", "half"},
        {{"--event-log-bytes", "1"}, "event-log-bytes", "choose 65536"},
        {{"--tls-cert=a", "--tls-key=b"}, "tls-key", "name one with --listen mqtts://"},
        {{"--tls-min-version=1.3"}, "tls-min-version", "--listen mqtts://"},
        {{"--tls-client-ca=a", "--listen=ws://h"}, "tls-client-ca", "--listen mqtts://"},
        {{"--tls-client-crl=a", "--listen=mqtts://h"}, "tls-client-crl", "--tls-client-ca"},
        {{"--cluster", "10.0.0.1:6379"}, "cluster", "write redis://"},
        {{"--cluster", "redis://:secret@10.0.0.1"}, "cluster", "--cluster-password-file"},
        {{"--cluster=redis://r", "--data=state"}, "data", "leave one of them out"},
        {{"--cluster=redis://r", "--data=none"}, "data", "leave one of them out"},
        {{"--cluster=redis://r", "--fsync=1s"}, "fsync", "--cluster-durability"},
        {{"--cluster=redis://r", "--cluster-ca=ca.pem"}, "cluster-ca", "a rediss:// URL"},
        {{"--cluster=redis://r", "--cluster-password-file=/no/such"}, "/no/such", "password-file"},
        {{"--cluster-durability=often"}, "cluster-durability", "choose always, everysec or none"},
        {{"--cluster-replicas=11"}, "cluster-replicas", "choose 0 to 10"},
        {{"--node-lease=1s"}, "node-lease", "to 60s"},
        {{"--node-name=west 1"}, "node-name", "letters, digits"},
        {{"--cluster=redis://r", "--link-cert=c"}, "link-key", "all of link-cert"},
        {{"--cluster=redis://r", "--link-listen=7883"}, "link-listen", "127.0.0.1:7883"},
        {{"--cluster=redis://r", "--link-listen=10.0.0.1:1"}, "link-listen", "set link-cert"},
        {{"--cluster=redis://r", "--link-listen=0.0.0.0:1", "--link-cert=c", "--link-key=k",
          "--link-ca=a"},
         "link-address",
         "write the HOST:PORT"},
        {{"--cluster=redis://r", "--link-address=west"}, "link-address", "10.0.0.1:7883"},
        {{"--cluster-password-file=p"}, "cluster-password-file", "--cluster"},
        {{"--cluster-ca=ca.pem"}, "cluster-ca", "--cluster"},
        {{"--cluster-durability=none"}, "cluster-durability", "--cluster"},
        {{"--cluster-replicas=1"}, "cluster-replicas", "--cluster"},
        {{"--node-name=west"}, "node-name", "--cluster"},
        {{"--node-lease=9s"}, "node-lease", "--cluster"},
        {{"--link-listen=127.0.0.1:1"}, "link-listen", "--cluster"},
        {{"--link-address=west:1"}, "link-address", "--cluster"},
        {{"--link-cert=c"}, "link-cert", "--cluster"},
        {{"--link-key=k"}, "link-key", "--cluster"},
        {{"--link-ca=a"}, "link-ca", "--cluster"},
        {{"--no-such-thing"}, "no-such-thing", "--help"},
        {{"--shards"}, "shards", "--help"},
        {{"surplus"}, "surplus", "--help"},
        {{"--idletimeout", "30s"}, "--idletimeout", "did you mean --idle-timeout"},
        {{"--idle-timeot=30s"}, "'--idle-timeot'", "did you mean --idle-timeout"},
        {{"--shards=1", "--shards=2"}, "shards", "write --shards once"},
        {{"--config=a", "--config=b"}, "config", "write --config once"},
        {{"--auth-hook-token-file=t"}, "auth-hook-token-file", "--auth-hook"},
        {{"--jwt-audience=a"}, "jwt-audience", "--jwt-key"},
        {{"--jwt-jwks-ca=a"}, "jwt-jwks-ca", "https://"},
    };
    for (const auto& [arguments, name, remedy] : wrong) {
        const auto said = complaint(arguments);
        CAPTURE(arguments.front());
        CAPTURE(arguments.back());
        CAPTURE(said);
        CHECK(has(said, name));
        CHECK(has(said, remedy));
        CHECK_FALSE(has(said, "\n"));
    }
}
