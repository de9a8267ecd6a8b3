#include "server/redis/redis_target.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "server/base/text/url.h"

namespace pulsegate {

namespace {

constexpr std::uint16_t usual_port = 6379;
constexpr std::uint16_t usual_sentinel_port = 26379;

constexpr const char* forms =
    "write redis://HOST:PORT, rediss://HOST:PORT with TLS, or redis+sentinel://HOST:PORT/NAME; "
    "several addresses are divided by commas";

[[noreturn]] void refuse(std::string_view why) {
    throw std::invalid_argument(fmt::format("{}; {}", why, forms));
}

/// The text before `mark`, which is taken from the front of `left` with the mark; nothing: there is
/// no mark.
std::optional<std::string_view> take_before(std::string_view& left, std::string_view mark) {
    const auto end = left.find(mark);
    if (end == std::string_view::npos) return std::nullopt;
    const auto before = left.substr(0, end);
    left.remove_prefix(end + mark.size());
    return before;
}

std::uint16_t parse_port(std::string_view text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0)
        refuse(fmt::format("'{}' is not a port", text));
    return port;
}

RedisAddress parse_address(std::string_view text, std::uint16_t port) {
    std::string_view host = text;
    if (text.starts_with('[')) {
        text.remove_prefix(1);
        const auto inner = take_before(text, "]");
        if (!inner || (!text.empty() && !text.starts_with(':'))) refuse("an IPv6 address has no ]");
        host = *inner;
        if (!text.empty()) port = parse_port(text.substr(1));
    } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
        host = text.substr(0, colon);
        port = parse_port(text.substr(colon + 1));
    }
    if (host.empty()) refuse("a host is missing");
    if (host.find_first_of("/?#[]@% \t\r\n") != std::string_view::npos)
        refuse(fmt::format("'{}' is not a host", host));
    return {std::string(host), port};
}

}  // namespace

std::string RedisAddress::text() const { return fmt::format("{}:{}", bracketed(host), port); }

std::string RedisTarget::text() const {
    std::string all = tls ? "rediss" : "redis";
    all += sentinel_name.empty() ? "://" : "+sentinel://";
    if (!user.empty()) all += user + "@";
    for (const RedisAddress& address : addresses)
        all += (&address == &addresses.front() ? "" : ",") + address.text();
    if (!sentinel_name.empty()) all += "/" + sentinel_name;
    return all;
}

RedisTarget parse_redis_target(std::string_view url) {
    RedisTarget target;
    const auto scheme = take_before(url, "://");
    const bool has_sentinels = scheme == "redis+sentinel" || scheme == "rediss+sentinel";
    target.tls = scheme == "rediss" || scheme == "rediss+sentinel";
    if (!target.tls && !has_sentinels && scheme != "redis") refuse("that is not a URL of a Redis");
    if (const auto user = take_before(url, "@")) {
        if (user->find(':') != std::string_view::npos)
            refuse("a password must not be on the command line: name --cluster-password-file");
        const auto decoded = percent_decoded(*user);
        if (!decoded || decoded->empty()) refuse("the user's name can't be read");
        target.user = *decoded;
    }
    if (has_sentinels) {
        std::string_view hosts = url;
        const auto before = take_before(hosts, "/");
        if (!before || hosts.empty()) refuse("the name of the sentinels' primary is missing");
        target.sentinel_name = hosts;
        url = *before;
    } else if (url.ends_with('/')) {
        url.remove_suffix(1);
    }
    if (url.find('/') != std::string_view::npos) refuse("a number of a database is not supported");
    const auto port = has_sentinels ? usual_sentinel_port : usual_port;
    while (const auto address = take_before(url, ","))
        target.addresses.push_back(parse_address(*address, port));
    target.addresses.push_back(parse_address(url, port));
    return target;
}

}  // namespace pulsegate
