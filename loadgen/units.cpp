#include "loadgen/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

namespace pulsegate::load {

namespace {

/// Removes a number from the front of `text`. No sign, no exponent, no "inf".
std::optional<double> take_number(std::string_view& text) {
    const auto end = text.find_first_not_of("0123456789.");
    const auto digits = std::string(text.substr(0, end));
    if (digits.find_first_of("0123456789") == std::string::npos) return {};
    if (digits.find('.') != digits.rfind('.')) return {};
    text.remove_prefix(digits.size());
    double number = 0;
    const auto [end_of_number, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc()) return {};
    return number;
}

}  // namespace

Duration parse_duration(std::string_view text) {
    const char* remedy = "write a time with its unit, such as 500ms, 20s, 2m or 1h";
    const auto number = take_number(text);
    if (!number) throw std::invalid_argument(remedy);

    double unit = 0;
    if (text == "ms") unit = 1e-3;
    if (text == "s") unit = 1;
    if (text == "m" || text == "min") unit = 60;
    if (text == "h") unit = 3600;
    if (unit == 0) throw std::invalid_argument(remedy);

    constexpr double year = 365.0 * 24 * 3600;
    if (*number * unit > year) throw std::invalid_argument("that is more than a year");
    return from_seconds(*number * unit);
}

double parse_rate(std::string_view text) {
    const auto number = take_number(text);
    if (!number || (!text.empty() && text != "/s"))
        throw std::invalid_argument("write a rate such as 3000/s");
    if (*number > 1e9) throw std::invalid_argument("that is more than 1000000000/s");
    return *number;
}

double parse_percent(std::string_view text, double most) {
    const auto number = take_number(text);
    if (!number || (!text.empty() && text != "%") || *number > most)
        throw std::invalid_argument(fmt::format("write a percentage from 0% to {}%", most));
    return *number / 100;
}

std::uint64_t parse_count(std::string_view text) {
    const bool digits = text.find_first_not_of("0123456789") == std::string_view::npos;
    if (text.empty() || text.size() > 18 || !digits)
        throw std::invalid_argument("write a whole number, such as 15000");
    return std::stoull(std::string(text));
}

std::uint64_t Share::of(std::uint64_t all) const {
    constexpr double rounding = 1e-6;  // 29 % of 100 is 28.999999999999996 in binary
    return count + static_cast<std::uint64_t>(static_cast<double>(all) * fraction + rounding);
}

Share parse_share(std::string_view text) {
    try {
        if (text.ends_with('%')) return {.fraction = parse_percent(text)};
        return {.count = parse_count(text)};
    } catch (const std::invalid_argument&) {
        throw std::invalid_argument("write a number or a percentage, such as 15000 or 90%");
    }
}

Address parse_address(std::string_view url) {
    constexpr std::string_view scheme = "mqtt://";
    const char* remedy = "write the server's address as mqtt://HOST:PORT";
    if (!url.starts_with(scheme)) throw std::invalid_argument(remedy);
    url.remove_prefix(scheme.size());
    if (url.ends_with('/')) url.remove_suffix(1);

    Address address;
    if (url.starts_with('[')) {
        const auto end = url.find(']');
        if (end == std::string_view::npos) throw std::invalid_argument(remedy);
        address.host = url.substr(1, end - 1);
        url.remove_prefix(end + 1);
    } else {
        const auto colon = url.find(':');
        address.host = url.substr(0, colon);
        url.remove_prefix(address.host.size());
    }
    if (address.host.empty() || address.host.find_first_of("/@?# ") != std::string::npos)
        throw std::invalid_argument(remedy);
    if (url.empty()) return address;

    if (!url.starts_with(':')) throw std::invalid_argument(remedy);
    url.remove_prefix(1);
    const bool digits = url.find_first_not_of("0123456789") == std::string_view::npos;
    const auto port = !url.empty() && url.size() <= 5 && digits ? std::stoul(std::string(url)) : 0;
    if (port == 0 || port > std::numeric_limits<std::uint16_t>::max())
        throw std::invalid_argument("write a port from 1 to 65535, as in mqtt://127.0.0.1:1883");
    address.port = static_cast<std::uint16_t>(port);
    return address;
}

std::string printable(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

std::string show(Duration duration) {
    const double value = seconds(duration);
    if (value == 0) return "0 s";
    // The bounds leave room for rounding: 999.7 ms is a second.
    if (value < 0.9995e-3) return fmt::format("{:.0f} µs", value * 1e6);
    if (value < 0.09995) return fmt::format("{:.1f} ms", value * 1e3);
    if (value < 0.9995) return fmt::format("{:.0f} ms", value * 1e3);
    std::string text = fmt::format("{:.3f}", value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text + " s";
}

std::string show_count(std::uint64_t count) {
    const std::string digits = std::to_string(count);
    std::string text;
    for (std::size_t at = 0; at < digits.size(); ++at) {
        if (at > 0 && (digits.size() - at) % 3 == 0) text += ',';
        text += digits[at];
    }
    return text;
}

std::string show_rate(double rate) {
    if (rate > 0 && rate < 10) return fmt::format("{:.3g}/s", rate);
    return show_count(static_cast<std::uint64_t>(std::llround(rate))) + "/s";
}

std::string show_percent(double fraction) { return fmt::format("{:.4g} %", fraction * 100); }

std::string show(const Address& address) {
    const bool is_ipv6 = address.host.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", address.host, is_ipv6 ? "]" : "",
                       address.port);
}

}  // namespace pulsegate::load
