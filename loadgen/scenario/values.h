#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/scenario/scenario.h"

namespace pulsegate::load {

/// Values of scenario files that are not plain quantities. As in `units.h`, a text that can't be
/// parsed throws `std::invalid_argument` with the remedy.

std::uint32_t parse_count_between(std::string_view text, std::uint32_t least, std::uint32_t most);
double parse_factor_from(std::string_view text, double least);
Duration parse_time_above_zero(std::string_view text);
std::chrono::seconds parse_keepalive_time(std::string_view text);

std::array<double, 3> parse_qos_shares(std::string_view text);  ///< "1" or "0:80% 1:20%"
Range<std::uint32_t> parse_sizes(std::string_view text);        ///< "64" or "64..1024"
Range<Duration> parse_times(std::string_view text);             ///< "20s" or "5s..2m"
Peak parse_peak(std::string_view text);                         ///< "3m..6m x2.5"

Version parse_mqtt_version(std::string_view text);
TransportKind parse_transport(std::string_view text);
Leave parse_leave(std::string_view text);
Hostile parse_hostile(std::string_view text);
bool parse_session(std::string_view text);  ///< "kept" or "clean"

/// "nobody", "clients", "rooms", "clients of GROUP" or "rooms of GROUP".
struct Receivers {
    Group::To what = Group::To::nobody;
    std::string group;
};
Receivers parse_receivers(std::string_view text);

std::string_view name_of(TransportKind transport);
std::string_view name_of(Hostile hostile);

}  // namespace pulsegate::load
