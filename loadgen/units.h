#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/time.h"

namespace pulsegate::load {

/// Parses quantities of the command line. A text that can't be parsed throws
/// `std::invalid_argument` with the remedy.

Duration parse_duration(std::string_view text);                  ///< "500ms", "20s", "1.5m", "1h"
double parse_rate(std::string_view text);                        ///< "3000/s" or "3000", a second
double parse_percent(std::string_view text, double most = 100);  ///< "50%" or "50", returned as 0.5
std::uint64_t parse_count(std::string_view text);

/// A number, or a fraction of the total.
struct Share {
    std::uint64_t count = 0;
    double fraction = 0;

    std::uint64_t of(std::uint64_t all) const;
};
Share parse_share(std::string_view text);  ///< "15000" or "90%"

struct Address {
    std::string host;
    std::uint16_t port = 1883;
};
Address parse_address(std::string_view url);  ///< "mqtt://host[:port]", IPv6 in brackets

/// The same for people to read.
std::string show(Duration duration);          ///< "850 µs", "12.3 ms", "30.5 s"
std::string show_count(std::uint64_t count);  ///< "15,000"
std::string show_rate(double rate);           ///< "2,186/s"
std::string show_percent(double fraction);    ///< "5 %"
std::string show(const Address& address);     ///< "127.0.0.1:1883", IPv6 in brackets

/// A text with words of a server, for terminals and JSON: each byte that is not printable ASCII is
/// replaced by a question mark.
std::string printable(std::string text);

}  // namespace pulsegate::load
