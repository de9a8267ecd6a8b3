#include "server/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <thread>

namespace pulsegate {

namespace {

constexpr Millis second = 1000;

/// Ten years, and a terabyte: more is a slip of the hand.
constexpr Millis longest_memory = 3650ll * 86'400 * second;
constexpr std::size_t most_bytes = std::size_t{1} << 40;

/// The longest silence that MQTT can ask for: one and a half times 65,535 s.
constexpr Millis longest_silence = 98'303 * second;

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

/// "30s" with the units given, as a multiple of the smallest; nothing if it is not that.
template <std::size_t N>
std::optional<std::uint64_t> with_unit(std::string_view text, const Unit (&units)[N]) {
    std::uint64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    for (const Unit& known : units)
        if (unit == known.name && number <= UINT64_MAX / known.factor) return number * known.factor;
    return std::nullopt;
}

Millis parse_duration(const std::string& name, const std::string& text, Millis least, Millis most) {
    static constexpr Unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
    const auto value = with_unit(text, units);
    if (!value)
        throw ConfigError(
            fmt::format("{}: '{}' is no duration; write 500ms, 30s, 5m, 24h or 7d", name, text));
    if (*value < static_cast<std::uint64_t>(least) || *value > static_cast<std::uint64_t>(most))
        throw ConfigError(fmt::format("{}: {} is out of range; choose {}s to {}s", name, text,
                                      least / second, most / second));
    return static_cast<Millis>(*value);
}

std::size_t parse_size(const std::string& name, const std::string& text, std::size_t least,
                       std::size_t most) {
    static constexpr Unit units[] = {
        {"", 1}, {"B", 1}, {"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}};
    const auto value = with_unit(text, units);
    if (!value)
        throw ConfigError(
            fmt::format("{}: '{}' is no size; write 65536, 256KiB or 1MiB", name, text));
    if (*value < least || *value > most)
        throw ConfigError(
            fmt::format("{}: {} is out of range; choose {} to {} bytes", name, text, least, most));
    return *value;
}

unsigned parse_count(const std::string& name, const std::string& text, unsigned least,
                     unsigned most) {
    unsigned count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count < least || count > most)
        throw ConfigError(
            fmt::format("{}: '{}' is out of range; choose {} to {}", name, text, least, most));
    return count;
}

struct SchemeUse {
    std::string_view name;
    std::uint16_t port;  ///< when the URL names none
};

/// In the order of ListenUrl::Scheme.
constexpr SchemeUse schemes[] = {
    {"mqtt", 1883}, {"mqtts", 8883}, {"ws", 8083}, {"wss", 8084}, {"http", 8080}};

std::uint16_t parse_port(std::string_view text, const auto& fail) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        throw fail("has no valid port (0 to 65535)");
    return port;
}

ListenUrl parse_url(const std::string& text) {
    const auto fail = [&](std::string_view why) {
        return ConfigError(fmt::format(
            "listen: '{}' {}; write mqtt://127.0.0.1:1883 or http://127.0.0.1:8080", text, why));
    };
    std::string_view rest = text;
    const auto cut = [&rest](std::size_t at, std::size_t separator) {
        const auto front = rest.substr(0, at);
        rest.remove_prefix(std::min(rest.size(), at == rest.npos ? at : at + separator));
        return front;
    };
    if (rest.find("://") == rest.npos) throw fail("is no URL");
    const auto name = cut(rest.find("://"), 3);
    const auto* const known = std::find_if(std::begin(schemes), std::end(schemes),
                                           [&](const SchemeUse& use) { return use.name == name; });
    if (known == std::end(schemes)) throw fail(fmt::format("has the unknown scheme '{}'", name));
    ListenUrl url{static_cast<ListenUrl::Scheme>(known - schemes), "", known->port};

    std::string_view authority = cut(rest.find_first_of("/?"), 0);
    const std::string_view path = cut(rest.find('?'), 1);
    if (authority.starts_with('[')) {
        const auto bracket = authority.find(']');
        if (bracket == authority.npos) throw fail("lacks a ']'");
        url.host = authority.substr(1, bracket - 1);
        authority.remove_prefix(bracket + 1);
    } else {
        const auto colon = std::min(authority.find(':'), authority.size());
        url.host = authority.substr(0, colon);
        authority.remove_prefix(colon);
    }
    if (url.host.empty()) throw fail("names no host");
    if (!authority.empty()) {
        if (authority.front() != ':') throw fail("has no valid port (0 to 65535)");
        url.port = parse_port(authority.substr(1), fail);
    }
    if (url.is_websocket())
        url.path = path.size() > 1 ? path : "/mqtt";
    else if (path.size() > 1)
        throw fail("has a path, which only ws and wss know");
    if (rest == "proxy-protocol" && url.for_clients())
        url.proxy_protocol = true;
    else if (!rest.empty())
        throw fail(fmt::format("has the unknown option '{}'", rest));
    return url;
}

spdlog::level::level_enum parse_level(const std::string& name, const std::string& text) {
    if (text == "debug") return spdlog::level::debug;
    if (text == "info") return spdlog::level::info;
    if (text == "warn") return spdlog::level::warn;
    if (text == "error") return spdlog::level::err;
    throw ConfigError(
        fmt::format("{}: '{}' is unknown; choose debug, info, warn or error", name, text));
}

UserFrom parse_user_from(const std::string& name, const std::string& text) {
    if (text == "username") return UserFrom::username;
    if (text == "client-id") return UserFrom::client_id;
    throw ConfigError(fmt::format("{}: '{}' is unknown; choose username or client-id", name, text));
}

bool parse_switch(const std::string& name, const std::string& text) {
    if (text == "on" || text == "true") return true;
    if (text == "off" || text == "false") return false;
    throw ConfigError(fmt::format("{}: '{}' is unknown; choose on or off", name, text));
}

/// The settings of one command line: each option's text is turned into a member of the Config.
class Settings {
public:
    explicit Settings(CLI::App& app) : app_(app) {}

    template <class Parse>
    void any(const std::string& name, const char* type, const char* usual, const char* help,
             Parse parse) {
        auto* option = app_.add_option_function<std::string>(
            "--" + name, [name, parse](const std::string& text) { parse(name, text); }, help);
        option->type_name(type);
        if (*usual) option->default_str(usual);
    }

    void duration(const char* name, Millis& value, Millis least, Millis most, const char* usual,
                  const char* help) {
        any(name, "DURATION", usual, help, [&value, least, most](auto& named, auto& text) {
            value = parse_duration(named, text, least, most);
        });
    }

    void size(const char* name, std::size_t& value, std::size_t least, std::size_t most,
              const char* usual, const char* help) {
        any(name, "SIZE", usual, help, [&value, least, most](auto& named, auto& text) {
            value = parse_size(named, text, least, most);
        });
    }

    template <class Number>
    void count(const char* name, Number& value, unsigned least, unsigned most, const char* usual,
               const char* help) {
        any(name, "N", usual, help, [&value, least, most](auto& named, auto& text) {
            value = static_cast<Number>(parse_count(named, text, least, most));
        });
    }

    void on_off(const char* name, bool& value, const char* help) {
        any(name, "on|off", value ? "on" : "off", help,
            [&value](auto& named, auto& text) { value = parse_switch(named, text); });
    }

private:
    CLI::App& app_;
};

}  // namespace

std::string ListenUrl::text() const {
    const bool v6 = host.find(':') != std::string::npos;
    return fmt::format("{}://{}{}{}:{}{}{}", schemes[static_cast<std::size_t>(scheme)].name,
                       v6 ? "[" : "", host, v6 ? "]" : "", port, path,
                       proxy_protocol ? "?proxy-protocol" : "");
}

Config parse_config(int argc, const char* const* argv) {
    Config config;
    config.shards = std::max(1u, std::thread::hardware_concurrency());

    CLI::App app{
        "Pulsegate, a chat gateway: MQTT 3.1.1 and 5.0 for mobile clients, with presence that is "
        "right.\n"
        "Without arguments it serves MQTT on 127.0.0.1:1883 and its admin API on 127.0.0.1:8080.",
        "pulsegate"};
    app.get_formatter()->column_width(34);
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.set_version_flag("--version", "pulsegate " PULSEGATE_VERSION, "Print the version and exit");
    app.set_config("--config", "",
                   "Read settings from a TOML-style file, by the names below without the dashes: "
                   "idle-timeout = \"30s\"")
        ->type_name("FILE");
    app.allow_config_extras(CLI::config_extras_mode::error);

    app.add_option_function<std::vector<std::string>>(
           "--listen",
           [&](const std::vector<std::string>& urls) {
               for (const auto& url : urls) config.listen.push_back(parse_url(url));
           },
           "Where to listen, repeatable: mqtt, mqtts, ws or wss://HOST:PORT for clients, "
           "http://HOST:PORT for the admin API; ws and wss take a /path (/mqtt), clients' all "
           "?proxy-protocol. A kind that is not named keeps its default: mqtt://127.0.0.1:1883, "
           "http://127.0.0.1:8080")
        ->type_name("URL")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--allow-anonymous", config.gatekeeper.allow_anonymous,
                 "Let in who names no user, also on listeners that are reachable from outside");
    const auto files = [&](const char* name, std::vector<std::string>& value, const char* help) {
        app.add_option(std::string("--") + name, value, help)
            ->type_name("FILE")
            ->allow_extra_args(false)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    };
    files("tls-cert", config.tls.certificates,
          "Certificate of mqtts and wss listeners, PEM, with its chain; repeatable: the client's "
          "SNI chooses");
    files("tls-key", config.tls.keys, "Its private key, PEM; one for each --tls-cert");
    files("jwt-secret", config.gatekeeper.jwt.secret_files,
          "Secret of HS256 tokens, 32 bytes or more; repeatable. A token is a client's password, "
          "its sub the user");
    files("jwt-key", config.gatekeeper.jwt.public_key_files,
          "Public key of RS256, ES256 or EdDSA tokens, PEM; repeatable");
    Settings settings(app);
    settings.any("jwt-issuer", "TEXT", "", "What the iss of tokens must be",
                 [&](auto&, auto& text) { config.gatekeeper.jwt.issuer = text; });
    settings.any("jwt-audience", "TEXT", "", "What must be in the aud of tokens",
                 [&](auto&, auto& text) { config.gatekeeper.jwt.audience = text; });
    settings.any(
        "password-file", "FILE", "",
        "Users and hashed passwords, as mosquitto_passwd and `pulsegate passwd` write them",
        [&](auto&, auto& text) { config.gatekeeper.password_file = text; });
    settings.any("access-file", "FILE", "",
                 "Rules: who may publish and subscribe to what; allow|deny read|write|readwrite "
                 "[user NAME] FILTER",
                 [&](auto&, auto& text) { config.gatekeeper.access_file = text; });
    settings.any(
        "admin-token-file", "FILE", "",
        "The bearer token that the admin API asks for; must, unless it is on loopback only",
        [&](auto&, auto& text) { config.admin_token_file = text; });
    settings.any("tls-client-ca", "FILE", "",
                 "Clients must show a certificate that one of these signed, PEM",
                 [&](auto&, auto& text) { config.tls.client_ca = text; });
    settings.any("tls-min-version", "1.2|1.3", "1.2", "The oldest TLS that is spoken",
                 [&](auto& name, auto& text) {
                     if (text != "1.2" && text != "1.3")
                         throw ConfigError(
                             fmt::format("{}: '{}' is unknown; choose 1.2 or 1.3", name, text));
                     config.tls.allow_1_2 = text == "1.2";
                 });
    settings.count("shards", config.shards, 1, 256, "one per core",
                   "Event loops, each with a thread of its own");
    settings.any("events", "FILE", "",
                 "Append every change of presence to this file as a line of JSON; - is standard "
                 "output",
                 [&](auto&, auto& text) { config.events = text; });
    settings.any("log-level", "LEVEL", "info",
                 "What to log to standard error: debug, info, warn or error",
                 [&](auto& name, auto& text) { config.log_level = parse_level(name, text); });

    settings.any("user-from", "FIELD", "username",
                 "Who is the user of a client: its username (its client-id if it has none), or "
                 "always its client-id",
                 [&](auto& name, auto& text) { config.user_from = parse_user_from(name, text); });
    settings.duration("idle-timeout", config.idle_timeout, second, longest_silence, "30s",
                      "The silence after which a client is offline, when it states no keepalive "
                      "(MQTT 5.0: or a longer one)");
    app.add_flag(
        "--strict-idle-timeout", config.strict_idle_timeout,
        "Hold MQTT 3.1.1 clients to the idle timeout, even if they state a longer keepalive");
    settings.any("max-keepalive", "DURATION", "idle-timeout / 1.5",
                 "The longest keepalive that MQTT 5.0 clients may choose; the others are told it",
                 [&](auto& name, auto& text) {
                     config.max_keepalive = static_cast<std::uint32_t>(
                         parse_duration(name, text, second, 65'535 * second) / second);
                 });
    settings.duration("login-timeout", config.login_timeout, second, longest_silence, "10s",
                      "How long a new connection may take to send its CONNECT");
    settings.duration("forget-after", config.forget_after, second, longest_memory, "24h",
                      "How long an offline user stays known");

    settings.size("max-packet-size", config.max_packet_size, 1024, 268'435'460, "256KiB",
                  "The largest packet that a client may send");
    settings.size("output-budget", config.output_budget, 16 * 1024, 1 << 30, "1MiB",
                  "What may wait to be sent to one client; a slower one is cut");
    settings.count("receive-maximum", config.receive_maximum, 1, 65'535, "256",
                   "Messages of QoS 2 that a client may have under way to us");
    settings.count("max-inflight", config.max_inflight, 1, 5000, "256",
                   "Messages of QoS 1 and 2 that we have under way to a client");
    settings.count("topic-alias-maximum", config.topic_alias_maximum, 0, 65'535, "16",
                   "Topic aliases of one connection, in each direction");
    settings.any("max-qos", "0|1|2", "2", "The highest QoS that clients may use",
                 [&](auto& name, auto& text) {
                     config.max_qos = static_cast<QoS>(parse_count(name, text, 0, 2));
                 });

    settings.duration("max-session-expiry", config.max_session_expiry, 0, longest_memory, "7d",
                      "How long the session of a client that is away is kept, at most; a 3.1.1 "
                      "client that keeps its session gets all of it");
    settings.count("persistent-session-quota", config.persistent_session_quota, 1, 1'000'000'000,
                   "500000",
                   "How many sessions of clients that are away are kept; then the longest away "
                   "go first");
    settings.size("persistent-session-bytes", config.persistent_session_bytes, 1024 * 1024,
                  most_bytes, "1GiB",
                  "How much memory they take, with all queues; then the longest away go first");
    settings.count("max-queued-messages", config.max_queued_messages, 1, 1'000'000'000, "10000",
                   "How many messages wait for one client; then the oldest go first");
    settings.size("max-queued-bytes", config.max_queued_bytes, 1024, most_bytes, "4MiB",
                  "How much memory the messages take that wait for one client");

    settings.on_off("retain-available", config.retain_available,
                    "Whether clients may publish retained messages");
    settings.count("max-retained-messages", config.max_retained_messages, 0, 1'000'000'000,
                   "1000000", "How many retained messages are kept");
    settings.size("max-retained-bytes", config.max_retained_bytes, 0, most_bytes, "256MiB",
                  "How much memory retained messages take");

    settings.count("max-subscriptions", config.max_subscriptions, 1, 10'000'000, "1000",
                   "How many subscriptions one client may have");
    settings.on_off("wildcard-subscriptions", config.wildcard_subscriptions,
                    "Whether filters may have wildcards");
    settings.on_off("shared-subscriptions", config.shared_subscriptions,
                    "Whether clients may share subscriptions: $share/GROUP/FILTER");
    settings.size("max-topic-length", config.max_topic_length, 1, 65'535, "65535",
                  "The longest topic or filter, in bytes");
    settings.count("max-topic-levels", config.max_topic_levels, 1, 1000, "128",
                   "How many levels a filter may have");

    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        throw Informed{app.help()};
    } catch (const CLI::CallForVersion& version) {
        throw Informed{std::string(version.what()) + "\n"};
    } catch (const CLI::ConfigError& error) {
        std::string_view what = error.what();
        if (what.ends_with(".++")) what.remove_suffix(3);  // CLI11's mark of a section's beginning
        throw ConfigError(fmt::format("config: unknown setting '{}'; --help lists the settings",
                                      what.substr(what.rfind(' ') + 1)));
    } catch (const CLI::ParseError& error) {
        throw ConfigError(fmt::format("{}; see --help", error.what()));
    }

    if (config.output_budget < config.max_packet_size)
        throw ConfigError(fmt::format(
            "output-budget: {} bytes are less than max-packet-size ({}); a packet must fit",
            config.output_budget, config.max_packet_size));
    const auto listens = [&](bool for_clients) {
        return std::any_of(config.listen.begin(), config.listen.end(),
                           [&](auto& url) { return url.for_clients() == for_clients; });
    };
    if (!listens(true)) config.listen.push_back({ListenUrl::Scheme::mqtt, "127.0.0.1", 1883});
    if (!listens(false)) config.listen.push_back({ListenUrl::Scheme::http, "127.0.0.1", 8080});
    return config;
}

}  // namespace pulsegate
