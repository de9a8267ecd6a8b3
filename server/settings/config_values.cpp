#include "server/settings/config_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "protocol/utf8.h"
#include "server/base/text/url.h"

namespace pulsegate {

namespace {

struct NamedUnit {
    std::string_view name;
    std::uint64_t factor;
};

/// A number with one of the units, such as "30s", as a multiple of the smallest unit; nothing if
/// the text is not that.
template <std::size_t N>
std::optional<std::uint64_t> with_unit(std::string_view text, const NamedUnit (&units)[N]) {
    std::uint64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    for (const NamedUnit& known : units)
        if (unit == known.name && number <= UINT64_MAX / known.factor) return number * known.factor;
    return std::nullopt;
}

struct SchemeUse {
    std::string_view name;
    std::uint16_t port;  ///< when the URL names none
};

/// In the order of ListenUrl::Scheme.
constexpr SchemeUse schemes[] = {{"mqtt", 1883}, {"mqtts", 8883}, {"ws", 8083},
                                 {"wss", 8084},  {"http", 8080},  {"https", 8443}};

std::uint16_t parse_port(std::string_view text, const auto& fail) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        throw fail("has no valid port (0 to 65535)");
    return port;
}

/// Host and port of a URL: `host:port`, `host`, `[::1]:port`. `port` is left alone if the URL names
/// none.
void parse_authority(std::string_view authority, std::string& host, std::uint16_t& port,
                     const auto& fail) {
    if (authority.starts_with('[')) {
        const auto bracket = authority.find(']');
        if (bracket == authority.npos) throw fail("has no ']'");
        host = authority.substr(1, bracket - 1);
        authority.remove_prefix(bracket + 1);
    } else {
        const auto colon = std::min(authority.find(':'), authority.size());
        host = authority.substr(0, colon);
        authority.remove_prefix(colon);
    }
    if (host.empty()) throw fail("names no host");
    if (authority.empty()) return;
    if (authority.front() != ':') throw fail("has no valid port (0 to 65535)");
    port = parse_port(authority.substr(1), fail);
}

/// Removes the text before `at` from `rest`, and `separator` characters behind it. Returns that
/// text.
std::string_view cut(std::string_view& rest, std::size_t at, std::size_t separator) {
    const auto front = rest.substr(0, at);
    rest.remove_prefix(std::min(rest.size(), at == rest.npos ? at : at + separator));
    return front;
}

}  // namespace

Millis parse_duration(const std::string& name, const std::string& text, Millis least, Millis most) {
    static constexpr NamedUnit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
    const auto value = text == "0" ? 0 : with_unit(text, units);
    if (!value)
        throw ConfigError(
            fmt::format("{}: '{}' is not a duration; write 500ms, 30s, 5m, 24h or 7d", name, text));
    if (*value < static_cast<std::uint64_t>(least) || *value > static_cast<std::uint64_t>(most))
        throw ConfigError(fmt::format(
            "{}: {} is out of range; choose {} to {}s", name, text,
            least % 1000 == 0 ? fmt::format("{}s", least / 1000) : fmt::format("{}ms", least),
            most / 1000));
    return static_cast<Millis>(*value);
}

std::size_t parse_size(const std::string& name, const std::string& text, std::size_t least,
                       std::size_t most) {
    static constexpr NamedUnit units[] = {
        {"", 1}, {"B", 1}, {"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}};
    const auto value = with_unit(text, units);
    if (!value)
        throw ConfigError(
            fmt::format("{}: '{}' is not a size; write 65536, 256KiB or 1MiB", name, text));
    if (*value < least || *value > most)
        throw ConfigError(
            fmt::format("{}: {} is out of range; choose {} to {} bytes", name, text, least, most));
    return *value;
}

unsigned parse_count(const std::string& name, const std::string& text, unsigned least,
                     unsigned most) {
    unsigned count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error == std::errc::invalid_argument || end != text.data() + text.size())
        throw ConfigError(fmt::format("{}: '{}' is not a whole number; choose {} to {}", name, text,
                                      least, most));
    if (error != std::errc() || count < least || count > most)
        throw ConfigError(
            fmt::format("{}: '{}' is out of range; choose {} to {}", name, text, least, most));
    return count;
}

ListenUrl parse_listen_url(const std::string& text) {
    const auto fail = [&](std::string_view why) {
        return ConfigError(fmt::format(
            "listen: '{}' {}; write mqtt://127.0.0.1:1883 or http://127.0.0.1:8080", text, why));
    };
    std::string_view rest = text;
    if (rest.find("://") == rest.npos) throw fail("is not a URL");
    const auto name = cut(rest, rest.find("://"), 3);
    const auto* const known = std::find_if(std::begin(schemes), std::end(schemes),
                                           [&](const SchemeUse& use) { return use.name == name; });
    if (known == std::end(schemes)) throw fail(fmt::format("has the unknown scheme '{}'", name));
    ListenUrl url{static_cast<ListenUrl::Scheme>(known - schemes), "", known->port};

    parse_authority(cut(rest, rest.find_first_of("/?"), 0), url.host, url.port, fail);
    const std::string_view path = cut(rest, rest.find('?'), 1);
    if (url.is_websocket())
        url.path = path.size() > 1 ? path : "/mqtt";
    else if (path.size() > 1)
        throw fail("has a path, which only ws and wss URLs may have");
    if (rest == "proxy-protocol" && url.for_clients())
        url.proxy_protocol = true;
    else if (!rest.empty())
        throw ConfigError(fmt::format("listen: '{}' has the unknown option '{}'; {}", text, rest,
                                      url.for_clients() ? "write ?proxy-protocol, or no option"
                                                        : "write the URL without it"));
    return url;
}

std::string parse_origin(const std::string& text) {
    const auto scheme = text.find("://");
    const bool complete = scheme != text.npos && scheme > 0 && scheme + 3 < text.size();
    if (text != "*" && (!complete || text.find('/', scheme + 3) != text.npos))
        throw ConfigError(fmt::format(
            "websocket-origin: '{}' is not an origin; write https://chat.example without a "
            "path, or *",
            text));
    return text;
}

bool parse_rooms(const std::string& name, const std::string& text) {
    if (text == "members") return true;
    if (text == "open") return false;
    throw ConfigError(fmt::format("{}: '{}' is unknown; choose open or members", name, text));
}

bool parse_presence_for(const std::string& name, const std::string& text) {
    if (text == "watchers") return true;
    if (text == "everybody") return false;
    throw ConfigError(fmt::format("{}: '{}' is unknown; choose everybody or watchers", name, text));
}

std::string parse_property_name(const std::string& name, const std::string& text) {
    constexpr std::size_t longest = 256;
    if (text.size() <= longest && valid_utf8(text)) return text;
    throw ConfigError(fmt::format(
        "{}: '{}' can't be the name of a property; write up to {} bytes of UTF-8, or \"\" for none",
        name, text, longest));
}

HttpUrl parse_hook_url(const std::string& name, const std::string& text) {
    // A message does not repeat a URL in which there may be a password.
    const bool may_be_shown = text.find('@') == text.npos;
    const auto fail = [&](std::string_view why) {
        const auto shown = may_be_shown ? fmt::format("'{}'", text) : std::string("the URL");
        return ConfigError(
            fmt::format("{}: {} {}; write https://auth.example/mqtt or http://127.0.0.1:9000/mqtt",
                        name, shown, why));
    };
    const auto visible = [](char c) { return c > ' ' && c <= '~'; };
    if (!std::all_of(text.begin(), text.end(), visible))
        throw ConfigError(name + ": the URL has characters that must be percent-encoded, as %20");
    std::string_view rest = text;
    if (rest.find("://") == rest.npos) throw fail("is not a URL");
    const auto scheme = cut(rest, rest.find("://"), 3);
    if (scheme != "http" && scheme != "https")
        throw fail(may_be_shown ? fmt::format("has the unknown scheme '{}'", scheme)
                                : std::string("has an unknown scheme"));
    HttpUrl url{.tls = scheme == "https"};
    url.port = url.tls ? 443 : 80;
    const auto authority = cut(rest, rest.find_first_of("/?#"), 0);
    if (authority.find('@') != authority.npos)
        throw ConfigError(
            fmt::format("{0}: the URL names a user; put a token into a {0}-token-file", name));
    parse_authority(authority, url.host, url.port, fail);
    if (url.port == 0) throw fail("has the port 0; name the port of the hook");
    if (rest.find('#') != rest.npos) throw fail("has a fragment (#), which is never sent");
    url.target = rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest);
    return url;
}

EventKinds parse_event_kinds(const std::string& name, const std::string& text) {
    EventKinds kinds = 0;
    std::string_view rest = text;
    do {
        const auto word = cut(rest, rest.find(','), 1);
        const auto kind = event_kind(word);
        if (!kind)
            throw ConfigError(
                fmt::format("{}: '{}' is unknown; choose some of {}, separated by commas", name,
                            word, fmt::join(event_kind_names, ", ")));
        kinds |= kinds_of(*kind);
    } while (!rest.empty());
    return kinds;
}

spdlog::level::level_enum parse_level(const std::string& name, const std::string& text) {
    if (text == "debug") return spdlog::level::debug;
    if (text == "info") return spdlog::level::info;
    if (text == "warn") return spdlog::level::warn;
    if (text == "error") return spdlog::level::err;
    throw ConfigError(
        fmt::format("{}: '{}' is unknown; choose debug, info, warn or error", name, text));
}

LogFormat parse_log_format(const std::string& name, const std::string& text) {
    if (text == "text") return LogFormat::text;
    if (text == "json") return LogFormat::json;
    throw ConfigError(fmt::format("{}: '{}' is unknown; choose text or json", name, text));
}

UserFrom parse_user_from(const std::string& name, const std::string& text) {
    if (text == "username") return UserFrom::username;
    if (text == "client-id") return UserFrom::client_id;
    if (text == "certificate") return UserFrom::certificate;
    throw ConfigError(
        fmt::format("{}: '{}' is unknown; choose username, client-id or certificate", name, text));
}

bool parse_switch(const std::string& name, const std::string& text) {
    if (text == "on" || text == "true") return true;
    if (text == "off" || text == "false") return false;
    throw ConfigError(fmt::format("{}: '{}' is unknown; choose on or off", name, text));
}

Fsync parse_fsync(const std::string& name, const std::string& text) {
    if (text == "always") return Fsync::always;
    if (text == "1s") return Fsync::each_second;
    if (text == "never") return Fsync::never;
    throw ConfigError(fmt::format("{}: '{}' is unknown; choose always, 1s or never", name, text));
}

std::string ListenUrl::text() const {
    return fmt::format("{}://{}:{}{}{}", schemes[static_cast<std::size_t>(scheme)].name,
                       bracketed(host), port, path, proxy_protocol ? "?proxy-protocol" : "");
}

}  // namespace pulsegate
