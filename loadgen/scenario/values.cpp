#include "loadgen/scenario/values.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "loadgen/units.h"

namespace pulsegate::load {

namespace {

/// The smallest payload: the head that says what the message is.
constexpr std::uint32_t smallest_payload = 32;
constexpr std::uint32_t largest_payload = 128 * 1024;  // less than what clients read

template <class Value, std::size_t size>
Value one_of(const std::array<std::pair<std::string_view, Value>, size>& names,
             std::string_view text) {
    std::string all;
    for (std::size_t at = 0; at < size; ++at) {
        if (names[at].first == text) return names[at].second;
        all += (at == 0 ? "" : at + 1 == size ? " or " : ", ") + std::string(names[at].first);
    }
    throw std::invalid_argument("write " + all);
}

template <class Value, std::size_t size>
std::string_view name_in(const std::array<std::pair<std::string_view, Value>, size>& names,
                         Value value) {
    for (const auto& [name, named] : names)
        if (named == value) return name;
    return {};
}

constexpr std::array<std::pair<std::string_view, TransportKind>, 4> transports{
    {{"tcp", TransportKind::tcp},
     {"tls", TransportKind::tls},
     {"ws", TransportKind::ws},
     {"wss", TransportKind::wss}}};

constexpr std::array<std::pair<std::string_view, Leave>, 3> leaves{
    {{"disconnect", Leave::disconnect}, {"reset", Leave::reset}, {"vanish", Leave::vanish}}};

constexpr std::array<std::pair<std::string_view, Hostile>, 8> hostiles{
    {{"none", Hostile::none},
     {"half-open", Hostile::half_open},
     {"slow-reader", Hostile::slow_reader},
     {"dribbler", Hostile::dribbler},
     {"duel", Hostile::duel},
     {"garbage", Hostile::garbage},
     {"subscriber", Hostile::subscriber},
     {"herd", Hostile::herd}}};

constexpr std::array<std::pair<std::string_view, bool>, 2> sessions{
    {{"clean", false}, {"kept", true}}};

constexpr std::array<std::pair<std::string_view, Group::To>, 3> receivers{
    {{"nobody", Group::To::nobody}, {"clients", Group::To::clients}, {"rooms", Group::To::rooms}}};

std::vector<std::string_view> words(std::string_view text) {
    std::vector<std::string_view> found;
    while (true) {
        const auto begin = text.find_first_not_of(" \t");
        if (begin == std::string_view::npos) return found;
        text.remove_prefix(begin);
        found.push_back(text.substr(0, text.find_first_of(" \t")));
        text.remove_prefix(found.back().size());
    }
}

/// "A..B", or "A" for both.
std::pair<std::string_view, std::string_view> ends_of(std::string_view text) {
    const auto dots = text.find("..");
    if (dots == std::string_view::npos) return {text, text};
    return {text.substr(0, dots), text.substr(dots + 2)};
}

}  // namespace

std::uint32_t parse_count_between(std::string_view text, std::uint32_t least, std::uint32_t most) {
    const auto count = parse_count(text);
    if (count < least || count > most)
        throw std::invalid_argument(fmt::format("write a number from {} to {}", least, most));
    return static_cast<std::uint32_t>(count);
}

double parse_factor_from(std::string_view text, double least) {
    try {
        if (const double factor = parse_rate(text); factor >= least && !text.ends_with("/s"))
            return factor;
    } catch (const std::invalid_argument&) {
    }
    throw std::invalid_argument(fmt::format("write a number from {}, such as 5", least));
}

Duration parse_time_above_zero(std::string_view text) {
    const auto duration = parse_duration(text);
    if (duration <= Duration::zero()) throw std::invalid_argument("write a time above 0");
    return duration;
}

// CONNECT has a 16-bit number of seconds, and with 0 the server would never close a silent client.
std::chrono::seconds parse_keepalive_time(std::string_view text) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(parse_duration(text));
    if (whole != parse_duration(text) || whole.count() < 1 || whole.count() > 65535)
        throw std::invalid_argument("write whole seconds from 1s to 65535s");
    return whole;
}

std::array<double, 3> parse_qos_shares(std::string_view text) {
    const char* remedy = "write 0, 1 or 2, or shares such as 0:80% 1:20%";
    std::array<double, 3> shares{};
    const auto parts = words(text);
    if (parts.size() == 1 && parts[0].size() == 1 && text[0] >= '0' && text[0] <= '2') {
        shares[static_cast<std::size_t>(text[0] - '0')] = 1;
        return shares;
    }
    double sum = 0;
    for (const auto part : parts) {
        if (part.size() < 3 || part[0] < '0' || part[0] > '2' || part[1] != ':')
            throw std::invalid_argument(remedy);
        sum += shares[static_cast<std::size_t>(part[0] - '0')] = parse_percent(part.substr(2));
    }
    if (parts.empty()) throw std::invalid_argument(remedy);
    if (sum < 0.999 || sum > 1.001)
        throw std::invalid_argument(
            fmt::format("the shares add up to {}; write shares of 100 %, such as 0:80% 1:20%",
                        show_percent(sum)));
    return shares;
}

Range<std::uint32_t> parse_sizes(std::string_view text) {
    const auto [least, most] = ends_of(text);
    const Range<std::uint32_t> sizes{parse_count_between(least, smallest_payload, largest_payload),
                                     parse_count_between(most, smallest_payload, largest_payload)};
    if (sizes.least > sizes.most)
        throw std::invalid_argument("write the smaller size first, such as 64..1024");
    return sizes;
}

Range<Duration> parse_times(std::string_view text) {
    const auto [least, most] = ends_of(text);
    const Range<Duration> times{parse_duration(least), parse_duration(most)};
    if (times.least > times.most)
        throw std::invalid_argument("write the shorter time first, such as 5s..2m");
    return times;
}

Peak parse_peak(std::string_view text) {
    const auto parts = words(text);
    if (parts.size() != 2 || !parts[1].starts_with('x') ||
        parts[0].find("..") == std::string_view::npos)
        throw std::invalid_argument("write from when to when and how much, such as 3m..6m x2.5");
    const auto times = parse_times(parts[0]);
    return {times.least, times.most, parse_factor_from(parts[1].substr(1), 0)};
}

Version parse_mqtt_version(std::string_view text) {
    if (text == "3.1.1" || text == "4") return Version::v3_1_1;
    if (text == "5" || text == "5.0") return Version::v5_0;
    throw std::invalid_argument("write 3.1.1 or 5");
}

TransportKind parse_transport(std::string_view text) { return one_of(transports, text); }
Leave parse_leave(std::string_view text) { return one_of(leaves, text); }
Hostile parse_hostile(std::string_view text) { return one_of(hostiles, text); }
bool parse_session(std::string_view text) { return one_of(sessions, text); }

Receivers parse_receivers(std::string_view text) {
    const auto parts = words(text);
    if (parts.size() == 3 && parts[1] == "of" && parts[0] != "nobody")
        return {one_of(receivers, parts[0]), std::string(parts[2])};
    if (parts.size() != 1)
        throw std::invalid_argument(
            "write nobody, clients, rooms, or those of another group, such as clients of phones");
    return {one_of(receivers, parts[0]), {}};
}

std::string_view name_of(TransportKind transport) { return name_in(transports, transport); }
std::string_view name_of(Hostile hostile) { return name_in(hostiles, hostile); }

}  // namespace pulsegate::load
