#include "server/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <thread>

namespace pulsegate {

namespace {

constexpr Millis second = 1000;

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

ListenUrl parse_url(const std::string& text) {
    const auto fail = [&](std::string_view why) {
        return ConfigError(fmt::format(
            "listen: '{}' {}; write mqtt://127.0.0.1:1883 or http://127.0.0.1:8080", text, why));
    };
    std::string_view rest = text;
    const auto scheme_end = rest.find("://");
    if (scheme_end == std::string_view::npos) throw fail("is no URL");
    const auto scheme = rest.substr(0, scheme_end);
    rest.remove_prefix(scheme_end + 3);

    ListenUrl url{};
    if (scheme == "mqtt")
        url = {ListenUrl::Scheme::mqtt, "", 1883};
    else if (scheme == "http")
        url = {ListenUrl::Scheme::http, "", 8080};
    else
        throw fail(fmt::format("has the unknown scheme '{}'", scheme));

    if (rest.ends_with('/')) rest.remove_suffix(1);
    std::string_view port;
    if (rest.starts_with('[')) {
        const auto bracket = rest.find(']');
        if (bracket == std::string_view::npos) throw fail("lacks a ']'");
        url.host = rest.substr(1, bracket - 1);
        port = rest.substr(bracket + 1);
    } else {
        const auto colon = std::min(rest.find(':'), rest.size());
        url.host = rest.substr(0, colon);
        port = rest.substr(colon);
    }
    if (url.host.empty()) throw fail("names no host");
    if (port.empty()) return url;
    const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), url.port);
    if (port.front() != ':' || port.size() == 1 || error != std::errc() ||
        end != port.data() + port.size())
        throw fail("has no valid port (0 to 65535)");
    return url;
}

/// Adds an option whose text `parse` turns into the setting.
template <class Parse>
void setting(CLI::App& app, const std::string& name, const char* type, const char* usual,
             const char* help, Parse parse) {
    auto* option = app.add_option_function<std::string>(
        "--" + name, [name, parse](const std::string& text) { parse(name, text); }, help);
    option->type_name(type);
    if (*usual) option->default_str(usual);
}

}  // namespace

std::string ListenUrl::text() const {
    const bool v6 = host.find(':') != std::string::npos;
    return fmt::format("{}://{}{}{}:{}", scheme == Scheme::mqtt ? "mqtt" : "http", v6 ? "[" : "",
                       host, v6 ? "]" : "", port);
}

BrokerSettings Config::broker() const {
    return {.idle_timeout = idle_timeout,
            .strict_idle_timeout = strict_idle_timeout,
            .user_from = user_from,
            .max_packet_size = max_packet_size,
            .output_budget = output_budget,
            .max_subscriptions = max_subscriptions,
            .forget_after = forget_after};
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
           "Where to listen, repeatable: mqtt://HOST:PORT for clients, http://HOST:PORT for the "
           "admin API. "
           "A kind that is not named keeps its default: mqtt://127.0.0.1:1883, "
           "http://127.0.0.1:8080")
        ->type_name("URL")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--allow-anonymous", config.allow_anonymous,
                 "Let anybody in on listeners that are reachable from outside this machine");
    setting(app, "shards", "N", "one per core", "Event loops, each with a thread of its own",
            [&](auto& name, auto& text) { config.shards = parse_count(name, text, 1, 256); });
    setting(app, "idle-timeout", "DURATION", "30s",
            "The silence after which a client is offline, when it states no keepalive (MQTT 5.0: "
            "or a longer one)",
            [&](auto& name, auto& text) {
                config.idle_timeout = parse_duration(name, text, second, longest_silence);
            });
    app.add_flag(
        "--strict-idle-timeout", config.strict_idle_timeout,
        "Hold MQTT 3.1.1 clients to the idle timeout, even if they state a longer keepalive");
    setting(app, "login-timeout", "DURATION", "10s",
            "How long a new connection may take to send its CONNECT", [&](auto& name, auto& text) {
                config.login_timeout = parse_duration(name, text, second, longest_silence);
            });
    setting(app, "forget-after", "DURATION", "24h", "How long an offline user stays known",
            [&](auto& name, auto& text) {
                config.forget_after = parse_duration(name, text, second, 3650ll * 86'400 * second);
            });
    setting(app, "user-from", "FIELD", "username",
            "Who is the user of a client: its username (its client-id if it has none), or always "
            "its client-id",
            [&](auto& name, auto& text) {
                if (text == "username")
                    config.user_from = UserFrom::username;
                else if (text == "client-id")
                    config.user_from = UserFrom::client_id;
                else
                    throw ConfigError(fmt::format(
                        "{}: '{}' is unknown; choose username or client-id", name, text));
            });
    setting(app, "max-packet-size", "SIZE", "256KiB", "The largest packet that a client may send",
            [&](auto& name, auto& text) {
                config.max_packet_size = parse_size(name, text, 1024, 268'435'460);
            });
    setting(app, "output-budget", "SIZE", "1MiB",
            "What may wait to be sent to one client; a slower one is cut",
            [&](auto& name, auto& text) {
                config.output_budget = parse_size(name, text, 16 * 1024, 1 << 30);
            });
    setting(app, "max-subscriptions", "N", "1000", "How many subscriptions one client may have",
            [&](auto& name, auto& text) {
                config.max_subscriptions = parse_count(name, text, 1, 10'000'000);
            });
    setting(app, "events", "FILE", "",
            "Append every change of presence to this file as a line of JSON; - is standard output",
            [&](auto&, auto& text) { config.events = text; });
    setting(app, "log-level", "LEVEL", "info",
            "What to log to standard error: debug, info, warn or error",
            [&](auto& name, auto& text) {
                if (text == "debug")
                    config.log_level = spdlog::level::debug;
                else if (text == "info")
                    config.log_level = spdlog::level::info;
                else if (text == "warn")
                    config.log_level = spdlog::level::warn;
                else if (text == "error")
                    config.log_level = spdlog::level::err;
                else
                    throw ConfigError(fmt::format(
                        "{}: '{}' is unknown; choose debug, info, warn or error", name, text));
            });

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
    const auto listens = [&](ListenUrl::Scheme scheme) {
        return std::any_of(config.listen.begin(), config.listen.end(),
                           [&](auto& url) { return url.scheme == scheme; });
    };
    if (!listens(ListenUrl::Scheme::mqtt))
        config.listen.push_back({ListenUrl::Scheme::mqtt, "127.0.0.1", 1883});
    if (!listens(ListenUrl::Scheme::http))
        config.listen.push_back({ListenUrl::Scheme::http, "127.0.0.1", 8080});
    return config;
}

}  // namespace pulsegate
